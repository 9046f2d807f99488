package testkit

import (
	"os"
	"os/exec"
	"testing"
)

// Command leaves the test out unless a command is installed.
func Command(t testing.TB, name, install string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, name+" is not installed: "+install)
	}
}

// Root leaves the test out unless it runs as root.
func Root(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, why+": run the tests as root")
	}
}

// Missing leaves the test out, with what is missing and how to get it.
func Missing(t testing.TB, words string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("left out, which CI does not allow: %s", words)
	}
	t.Skip(words)
}

// Unavailable leaves the test out unless a command is installed that no package of the
// distribution and no module has: CI cannot install it either, so that it is left out there
// too, and says what is not tested.
func Unavailable(t testing.TB, name, untested string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not on PATH, and no registry that CI uses has it, so this is not tested: %s", name, untested)
	}
}

// Nightly reports whether this is the long run, in which tests go through all of
// what every run goes through a slice of.
func Nightly() bool { return os.Getenv("STEADY_NIGHTLY") != "" }

// Nix leaves the test out unless the commands of Nix are installed.
func Nix(t testing.TB) {
	t.Helper()
	for _, name := range []string{"nix-env", "nix-store", "nix-instantiate"} {
		Command(t, name, "apt-get install nix-bin")
	}
}
