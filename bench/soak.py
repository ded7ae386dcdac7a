"""Thousands of good and hostile queries through one sandbox, or thousands of grades through one verifier, and what is
left over: outcomes, seconds over the deadline, lost workers, leaked processes and files, memory along the way.

    python bench/soak.py [--queries 10000] [--hostile 0.5] [--workers 2] [--seconds 0.3] [--seed 0] [--out FILE.json]
    python bench/soak.py --grades 100000

Every second batch is run one query at a time, so that the seconds over the deadline are those a caller sees, the start
of a new worker included; the others go through the pool side by side. Ends with code 1 if anything is not as it should
be. Needs the program `ps`. Timings and memory are printed and never asserted."""
import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from sqlrl.records import Outcome
from sqlrl.sandbox import Limits, Sandbox, build_attacked, read_attacks
from sqlrl.shop import shop_databases
from sqlrl.splits import load_split
from sqlrl.verifier import Verifier

BATCH = 50
PROMISED_S = 1.0  # over the deadline at most
LEFT_BEHIND = ("new.db", "stolen.db", "town.db", "n")  # files that attacks would like to leave


def worker_processes():
    "Process id → memory in MB of this program's workers, dead ones that nobody has collected included."
    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,rss=,command="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 3) for line in listing.stdout.splitlines()]
    mine = [row for row in rows if int(row[1]) == os.getpid() or row[3].endswith(f" {os.getpid()}")]
    return {int(row[0]): int(row[2]) / 1024 for row in mine if "ps -axo" not in row[3]}


def own_mb():
    "Memory of this program now, in MB."
    command = ["ps", "-o", "rss=", "-p", str(os.getpid())]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1024


def open_files():
    "How many files and sockets this program has open."
    return len(os.listdir("/dev/fd")) - 1


def snapshot(folder):
    "Every file of the folder with its contents, and every file that should not be elsewhere."
    here = {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return here | {str(p): b"" for w in (Path.cwd(), Path("/")) for n in LEFT_BEHIND if (p := w / n).exists()}


class Watch:
    "Samples of memory and of open files along the way."

    def __init__(self, total):
        self.samples, self.every, self.due, self.start = [], max(1, total // 12), 0, time.monotonic()

    def look(self, done):
        "Take a sample when it is time."
        if done < self.due: return
        self.due += self.every
        workers = worker_processes()
        self.samples.append({
            "done": done, "seconds": round(time.monotonic() - self.start), "own_mb": round(own_mb(), 1),
            "largest_worker_mb": round(max(workers.values(), default=0), 1), "workers": len(workers),
            "open_files": open_files()})
        print("  ".join(f"{key} {value:>8}" for key, value in self.samples[-1].items()), flush=True)


class Soak:
    "What is counted while queries run."

    def __init__(self, places):
        self.places, self.status, self.rules, self.complaints = places, Counter(), Counter(), []
        self.longest_over, self.slowest, self.rows = 0.0, "", {}

    def take(self, attack, result):
        "Count a result and compare it with what the corpus wants and with what the same query gave before."
        self.status[result.status] += 1
        if result.rule: self.rules[result.rule] += 1
        if complaint := attack.complaint(result): self.complaints.append(complaint)
        if result.status == "ok" and self.rows.setdefault(attack.name, result.rows) != result.rows:
            self.complaints.append(f"{attack.name}: other rows than before")

    def one_by_one(self, sandbox, batch):
        "Run the queries one after the other, with a clock."
        for attack in batch:
            started = time.monotonic()
            self.take(attack, sandbox.run(self.places[attack.database], attack.sql))
            over = time.monotonic() - started - sandbox.limits.seconds
            if over > self.longest_over: self.longest_over, self.slowest = over, attack.name

    def side_by_side(self, sandbox, batch):
        "Run the queries through the pool."
        results = sandbox.run_many([(self.places[attack.database], attack.sql) for attack in batch])
        for attack, result in zip(batch, results, strict=True): self.take(attack, result)


def draw(rng, corpus, count, hostile):
    "Queries with the wanted share of hostile ones."
    good = [attack for attack in corpus if attack.name.startswith("control/")]
    bad = [attack for attack in corpus if not attack.name.startswith("control/")]
    return [rng.choice(bad if rng.random() < hostile else good) for _ in range(count)]


def soak_queries(args, folder):
    "The report on queries."
    places = build_attacked(folder)
    corpus = [attack for attack in read_attacks() if attack.database in places]
    queries = draw(random.Random(args.seed), corpus, args.queries, args.hostile)
    before, soak, watch = snapshot(folder), Soak(places), Watch(args.queries)
    files = open_files()
    with Sandbox(args.workers, Limits(seconds=args.seconds)) as sandbox:
        for start in range(0, len(queries), BATCH):
            batch = queries[start:start + BATCH]
            run = soak.one_by_one if (start // BATCH) % 2 else soak.side_by_side
            run(sandbox, batch)
            watch.look(start + len(batch))
        version, started, missing = sandbox.sqlite_version, sandbox.started, sandbox.missing_limits
    return {"queries": len(queries), "hostile": args.hostile, "seed": args.seed, "deadline_s": args.seconds,
        "sqlite": version, "missing_limits": missing, "status": dict(soak.status), "refused_by": dict(soak.rules),
        "different_queries": len({query.name for query in queries}),
        "longest_over_deadline_s": round(soak.longest_over, 3), "slowest": soak.slowest,
        "workers_replaced": started - args.workers, "most_workers": max(s["workers"] for s in watch.samples),
        "complaints": soak.complaints, "leaked_processes": len(worker_processes()),
        "leaked_open_files": open_files() - files, "changed_files": snapshot(folder) != before,
        "samples": watch.samples}


def submissions(questions, rng, count, start):
    "References, wrong answers and attacks, most of them of a text nobody has sent before."
    quick = [a.sql for a in read_attacks() if a.name.partition("/")[0] in ("write", "clock", "statement", "malformed")]
    for number in range(start, start + count):
        question = rng.choice(questions)
        forms = [question.reference_sql, f"SELECT * FROM ({question.reference_sql}) LIMIT {number}", f"SELECT {number}",
            f"SELECT name FROM customers WHERE id > {number % 300}", rng.choice(quick)]
        yield question, rng.choice(forms)


def soak_grades(args):
    "The report on grades."
    questions, databases, rng = load_split("check"), shop_databases(), random.Random(args.seed)
    watch, outcomes, complaints, files = Watch(args.grades), Counter(), [], open_files()
    with Sandbox(args.workers) as sandbox:
        verifier = Verifier(sandbox, databases)
        verifier.check_references(questions)
        for start in range(0, args.grades, 500):
            batch = list(submissions(questions, rng, min(500, args.grades - start), start))
            for (question, sql), grade in zip(batch, verifier.grade_many(batch), strict=True):
                outcomes[str(grade.outcome)] += 1
                if grade.outcome == Outcome.grader_error: complaints.append(f"{question.id}: {grade.reason}")
                if sql == question.reference_sql and grade.outcome != Outcome.correct:
                    complaints.append(f"{question.id}: its reference is {grade.outcome}")
            watch.look(start + len(batch))
        version, started = sandbox.sqlite_version, sandbox.started
    return {"grades": args.grades, "seed": args.seed, "sqlite": version, "outcomes": dict(outcomes),
        "workers_replaced": started - args.workers, "complaints": complaints,
        "leaked_processes": len(worker_processes()), "leaked_open_files": open_files() - files,
        "samples": watch.samples}


def grown(samples, key):
    "Growth of a number from the second third of the samples to the last, and its value in the latter."
    third = max(1, len(samples) // 3)
    parts = (samples[third:-third] or samples, samples[-third:])
    middle, last = (sum(sample[key] for sample in part) / len(part) for part in parts)
    return f"{last:.1f} at the end, {last - middle:+.1f} since the middle"


def print_report(report):
    "The report as a table."
    print()
    for key, value in report.items():
        if key in ("samples", "complaints"): continue
        if isinstance(value, dict): value = ", ".join(f"{k} {n:,}" for k, n in Counter(value).most_common())
        print(f"{key:26} {value}")
    for key in ("own_mb", "largest_worker_mb"): print(f"{key:26} {grown(report['samples'], key)}")
    print(f"{'complaints':26} {len(report['complaints'])}")
    for complaint, count in Counter(report["complaints"]).most_common(20): print(f"  {count} × {complaint}")


def wrong(report):
    "Whether something is not as it should be."
    late = report.get("longest_over_deadline_s", 0) > PROMISED_S
    leaks = report["leaked_processes"] or report["leaked_open_files"] > 0 or report.get("changed_files")
    return bool(report["complaints"] or leaks or late)


def main():
    "Read the arguments, run, report."
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000, help="how many queries (default %(default)s)")
    parser.add_argument("--hostile", type=float, default=0.5, help="share of hostile ones (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.3, help="deadline of a query (default %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes of the pool (default %(default)s)")
    parser.add_argument("--grades", type=int, default=0, help="grade this often instead of running queries")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default %(default)s)")
    parser.add_argument("--out", type=Path, help="also write the report to this file, as JSON")
    args = parser.parse_args()
    if min(args.queries, args.workers) < 1 or not 0 <= args.hostile <= 1 or args.grades < 0 or args.seconds <= 0:
        parser.error("counts and seconds are positive, the share lies between 0 and 1")
    with tempfile.TemporaryDirectory() as folder:
        report = soak_grades(args) if args.grades else soak_queries(args, Path(folder))
    report |= {"python": platform.python_version(), "system": platform.system()}
    print_report(report)
    if args.out: args.out.write_text(json.dumps(report, indent=1, default=list) + "\n", encoding="utf-8")
    return int(wrong(report))


if __name__ == "__main__": sys.exit(main())
