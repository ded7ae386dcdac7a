"""Grades Spider's development set, gold against gold and the predictions of published systems, on the original
databases and on variants of them; beside taoyds/test-suite-sql-eval on the same files when a checkout is given.

    python bench/grading.py --spider FOLDER [--peer CHECKOUT] [--variants 10] [--out FILE.json]

Ours runs with its sandbox on. Cold is a new sandbox and a new verifier: workers start, files are hashed, references
run. Warm is the same work again with the same verifier. Timings are printed and never asserted."""
import argparse
import json
import os
import platform
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from sqlrl.config import SqlrlError, settings
from sqlrl.records import Database, content_hash, file_hash, seed_for, write_text
from sqlrl.sandbox import Sandbox
from sqlrl.spider import pair_predictions, read_predictions, spider_coverage, spider_databases, spider_folder
from sqlrl.verifier import Verifier

SHARE_KEPT = 0.8  # of a table's rows, in a variant; these variants are for timing, 07_variants has better ones


def quoted(name):
    "A table's name as SQL wants it."
    return '"' + name.replace('"', '""') + '"'


def orphans(connection):
    "Rows whose parent is missing, by foreign key: (table, number of the key) → row ids."
    found = {}
    for table, in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        try: broken = connection.execute(f"PRAGMA foreign_key_check({quoted(table)})").fetchall()
        except sqlite3.OperationalError: continue  # a key to a column that is not unique, as in voter_1
        for _, row, _, key in broken: found.setdefault((table, key), set()).add(row)
    return found


def thin_out(connection, rng):
    "Keep a random part of every table's rows, in another order; no foreign key is broken that was whole."
    broken = set(orphans(connection))
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    for table in [quoted(name) for name, in tables.fetchall()]:
        connection.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM main.{table}")
        places = [(place,) for place, in connection.execute("SELECT rowid FROM temp.kept")]
        connection.execute(f"DELETE FROM main.{table}")
        chosen = rng.sample(places, round(SHARE_KEPT * len(places)))
        connection.executemany(f"INSERT INTO main.{table} SELECT * FROM temp.kept WHERE rowid = ?", chosen)
        connection.execute("DROP TABLE temp.kept")
    while found := {key: rows for key, rows in orphans(connection).items() if key not in broken}:
        for (table, _), rows in found.items():
            connection.executemany(f"DELETE FROM main.{quoted(table)} WHERE rowid = ?", [(row,) for row in rows])
    connection.commit()


def make_copy(original, path, rng=None):
    "A copy of `original` at `path`; with `rng` a variant, which has fewer rows."
    part = path.with_suffix(".part")  # a name the peer does not take for a database
    shutil.copyfile(original, part)
    if rng:
        with closing(sqlite3.connect(part)) as connection:
            thin_out(connection, rng)
            connection.execute("VACUUM")
    os.replace(part, path)


def suite(folder, names, variants):
    """For each name the original and its variants, made on the first call and kept; all files of one database lie in
    one folder of their own, which is how the peer finds them."""
    sets = {}
    for name, (original,) in spider_databases(folder, names).items():
        key = content_hash([original.sha256, SHARE_KEPT, "thin_out 2"])[:12]
        place = settings().paths.runs / "cache" / "grading" / f"{name}_{key}_{variants}"
        place.mkdir(parents=True, exist_ok=True)
        paths = [place / "original.sqlite", *(place / f"variant_{i:02d}.sqlite" for i in range(variants))]
        if not paths[0].exists(): make_copy(original.path, paths[0])
        for i, path in enumerate(paths[1:]):
            if not path.exists(): make_copy(paths[0], path, random.Random(seed_for(name, i)))
        sets[name] = tuple(Database(f"{name}/{p.stem}", str(p), file_hash(p), p.stem) for p in paths)
    return sets


def processes_below():
    "Processor seconds and peak memory in MB of this process's living children; zero where there is no /proc."
    seconds, memory = 0.0, 0.0
    for pid in Path("/proc/self/task").glob("*/children") if Path("/proc").is_dir() else ():
        for child in pid.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            status = Path(f"/proc/{child}/status").read_text()
            memory += int(status.partition("VmHWM:")[2].split()[0]) / 1024
    return seconds, memory


def cpu_seconds():
    "Of this process and all its children, ended or not."
    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + processes_below()[0]


def peak_mb():
    "Peak memory of this process and its living children together; what pages they share is counted for each."
    unit = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit + processes_below()[1]


class Clock:
    "Wall and processor seconds since it was made."

    def __init__(self): self.wall, self.cpu = time.perf_counter(), cpu_seconds()

    def read(self, grades):
        "What is reported of one pass."
        wall, cpu = time.perf_counter() - self.wall, cpu_seconds() - self.cpu
        return {"wall_s": round(wall, 3), "cpu_s": round(cpu, 3), "grades_per_s": round(grades / wall),
            "peak_mb": round(peak_mb())}


def grade_ours(sets, pairs, args):
    "A cold pass over the pairs, the fastest of the warm ones, and the grades."
    clock = Clock()
    with Sandbox(workers=args.workers) as sandbox:
        verifier = Verifier(sandbox, sets, args.rule)
        verifier.grade_many(pairs)
        passes = [clock.read(len(pairs))]
        for _ in range(args.passes):
            clock = Clock()
            grades = verifier.grade_many(pairs)
            passes.append(clock.read(len(pairs)))
    warm = min(passes[1:], key=lambda row: row["wall_s"])
    return {"cold": passes[0], "warm": warm, "outcomes": dict(Counter(str(g.outcome) for g in grades))}, grades


PEER = """
import json, resource, sys, time
checkout, keep_distinct = sys.argv[1], sys.argv[2] == "True"
sys.path.insert(0, checkout)
from exec_eval import eval_exec_match
pairs, verdicts = json.load(sys.stdin), []
began, cpu = time.perf_counter(), time.process_time()
for path, submission, reference in pairs:
    try: verdicts.append(eval_exec_match(path, submission, reference, False, keep_distinct, False))
    except Exception as e: verdicts.append(f"{type(e).__name__}: {e}"[:200])
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))
print(json.dumps({"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu, "peak_mb": memory,
    "verdicts": verdicts}))
"""


def grade_peer(sets, pairs, args, keep_distinct):
    "The same pairs through the peer's `eval_exec_match`, values as predicted, in one process as it is meant to run."
    work = [(sets[q.database][0].path, sql, q.reference_sql) for q, sql in pairs]
    with tempfile.TemporaryDirectory() as empty:
        command = [args.peer_python, "-c", PEER, str(Path(args.peer).resolve()), str(keep_distinct)]
        done = subprocess.run(command, cwd=empty, input=json.dumps(work), capture_output=True, text=True)
    if done.returncode:
        raise SqlrlError(f"the peer in {args.peer} does not run: {done.stderr.strip().splitlines()[-1]}")
    result = json.loads(done.stdout.splitlines()[-1])
    verdicts = result.pop("verdicts")
    outcomes = Counter("failed" if isinstance(v, str) else "correct" if v else "wrong" for v in verdicts)
    row = {key: round(value, 3) for key, value in result.items()}
    return row | {"grades_per_s": round(len(pairs) / result["wall_s"]), "outcomes": dict(outcomes)}, verdicts


def compare_verdicts(sets, pairs, grades, verdicts, args):
    """Pairs by our verdict and the peer's. What the peer alone rejects is put to it again with DISTINCT left in both
    queries: a pair that it still rejects may be one that our grader should have rejected too."""
    names = {1: "correct", 0: "wrong"}
    counts = Counter(f"ours {'correct' if g.outcome == 'correct' else 'wrong'}, peer {names.get(v, 'failed')}"
        for g, v in zip(grades, verdicts))
    alone = [pair for pair, g, v in zip(pairs, grades, verdicts) if g.outcome == "correct" and v != 1]
    again = grade_peer(sets, alone, args, keep_distinct=True)[1] if alone else []
    still = [q.id for (q, _), v in zip(alone, again) if v != 1]
    return dict(counts) | {"rejected by the peer alone, with DISTINCT kept": still}


def show(name, row):
    "One line of the table that is printed."
    print(f"{name:<38} {row['wall_s']:>9.3f} {row['cpu_s']:>9.3f} {row['grades_per_s']:>9,} {row['peak_mb']:>8.0f}",
        flush=True)


def measure(name, sets, pairs, args):
    "All that is measured on one list of pairs."
    ours, grades = grade_ours(sets, pairs, args)
    show(f"{name}, ours cold", ours["cold"])
    show(f"{name}, ours warm", ours["warm"])
    result = {"pairs": len(pairs), "ours": ours}
    if args.peer:
        result["peer"], verdicts = grade_peer(sets, pairs, args, args.keep_distinct)
        show(f"{name}, peer", result["peer"])
        result["ratio"] = {kind: round(result["peer"]["wall_s"] / ours[kind]["wall_s"], 2) for kind in ("cold", "warm")}
        result["verdicts"] = compare_verdicts(sets, pairs, grades, verdicts, args)
        print(f"{'':<38} peer / ours: {result['ratio']['cold']:.1f} cold, {result['ratio']['warm']:.1f} warm")
        print(f"{'':<38} {result['verdicts']}")
    print(f"{'':<38} {ours['outcomes']}")
    return result


def parse_arguments():
    "The command line."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spider", help="folder with dev.json and database/ (default: where sqlrl.spider looks)")
    parser.add_argument("--predictions", help="folder of predictions (default: spider_predictions beside --spider)")
    parser.add_argument("--peer", help="a checkout of taoyds/test-suite-sql-eval")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python with sqlparse and tqdm (default: this)")
    parser.add_argument("--keep-distinct", action="store_true", help="the peer's option: DISTINCT counts")
    parser.add_argument("--rule", default="strict", help="by which ours compares (default strict)")
    parser.add_argument("--variants", type=int, default=10, help="databases beside each original (default 10)")
    parser.add_argument("--workers", type=int, default=2, help="processes of the sandbox (default 2)")
    parser.add_argument("--passes", type=int, default=3, help="warm passes, of which the fastest counts (default 3)")
    parser.add_argument("--gold-only", action="store_true", help="leave the predictions out")
    parser.add_argument("--out", type=Path, help="JSON file for the numbers")
    return parser.parse_args()


def main():
    "Measure, print, record."
    args = parse_arguments()
    folder = spider_folder(args.spider)
    if folder is None: raise SqlrlError("no Spider here: give its folder with --spider")
    coverage = spider_coverage(folder)
    questions, total = coverage.usable, sum(coverage.counts().values())
    sets = suite(folder, [q.database for q in questions], args.variants)
    files = sorted(Path(args.predictions or folder.parent / "spider_predictions").glob("*.txt"))
    lists = {"gold": [(q, q.reference_sql) for q in questions]}
    for path in [] if args.gold_only else files:
        lists[path.stem] = pair_predictions(questions, read_predictions(path, total))
    print(f"{len(questions)} of {total} questions, {len(sets)} databases, 1 + {args.variants} files each\n"
        f"{'':<38} {'wall s':>9} {'CPU s':>9} {'grades/s':>9} {'peak MB':>8}")
    results = {name: measure(name, sets, pairs, args) for name, pairs in lists.items()}
    if args.out:
        about = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "system": platform.platform(),
            "cpus": os.cpu_count(), "variants": args.variants, "workers": args.workers, "rule": args.rule,
            "keep_distinct": args.keep_distinct, "coverage": coverage.counts()}
        write_text(args.out, json.dumps({"about": about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    try: main()
    except SqlrlError as e: sys.exit(f"error: {e}")
