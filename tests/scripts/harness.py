"""What the Python tests share: arguments, expectations, runs of the program, skipping where a tool is absent."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77  # CTest shows the test as skipped


def skip(why):
    print("SKIPPED:", why)
    sys.exit(SKIPPED)


class Harness:
    """ROOT and the program from the command line; a temporary folder; counts what fails."""

    def __init__(self):
        if len(sys.argv) != 3:
            sys.exit(f"usage: {sys.argv[0]} CHECKOUT PROGRAM")
        self.root = pathlib.Path(sys.argv[1])
        self.program = sys.argv[2]
        self.temporary = tempfile.TemporaryDirectory(prefix="benchsuite-test-")
        self.folder = pathlib.Path(self.temporary.name)
        self.failures = 0

    def expect(self, what, condition, detail=""):
        print("ok     " if condition else "NOT ok ", what, "" if condition else f": {detail}")
        self.failures += not condition

    def run(self, *arguments, codes=(0,)):
        """Standard output of benchsuite with these arguments; anything but the given exit codes ends the test."""
        environment = dict(os.environ, BENCHSUITE_ROOT=str(self.root))
        done = subprocess.run([self.program, *map(str, arguments)], env=environment, cwd=self.folder,
                              capture_output=True, text=True)
        if done.returncode not in codes:
            sys.exit(f"{' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def finish(self):
        if os.environ.get("BENCHSUITE_KEEP"):  # a folder to look at what the test saw
            shutil.copytree(self.folder, os.environ["BENCHSUITE_KEEP"], ignore=shutil.ignore_patterns("profile"))
        self.temporary.cleanup()
        sys.exit(1 if self.failures else 0)
