// Package testkit is what the tests of all packages share: they end where an error
// must not be, wait for what comes in its own time, write files, and say what a
// machine lacks. It is a package of its own because the tests inside of any package may
// import what knows nothing of the product; no product package does.
package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// T is a test, a benchmark or a drawn case of a property.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Must ends the test at an error. Without one it costs nothing, so that benchmarks and
// properties may call it as often as they like.
func Must(t T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Value is the value of a call whose error ends the test: Value(f())(t).
func Value[V any](v V, err error) func(T) V {
	return func(t T) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Patience bounds the waits of tests. It is generous: it is met only by what never
// comes, however slow the machine.
const Patience = 3 * time.Minute

// Eventually waits for a condition.
func Eventually(t T, what string, cond func() bool) {
	t.Helper()
	if !InTime(cond) {
		t.Fatalf("waited in vain for: %s", what)
	}
}

// InTime asks a condition again and again, and is false when Patience ends first.
func InTime(cond func() bool) bool {
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for {
		began := time.Now()
		if cond() {
			return true
		}
		select {
		case <-time.After(Pause(time.Since(began))):
		case <-limit.C:
			return false
		}
	}
}

// Pause is how long to wait before a condition is asked again that took that long to
// ask: a test that waits leaves the machine to what it waits for.
func Pause(asked time.Duration) time.Duration {
	return min(max(2*time.Millisecond, 10*asked), time.Second)
}

// Files writes files below a folder, by their names relative to it with slashes.
// Those that begin with #! can be run.
func Files(t T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at, mode := filepath.Join(dir, filepath.FromSlash(name)), os.FileMode(0o644)
		if len(text) > 1 && text[:2] == "#!" {
			mode = 0o755
		}
		Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		Must(t, os.WriteFile(at, []byte(text), mode))
	}
}

// Folder is a new folder of the test with these files.
func Folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	Files(t, dir, files)
	return dir
}

var addresses atomic.Uint32

// FreeAddr is an address with a port that nothing listens on now. The address is a
// loopback one of its own: what has the system choose a port of 127.0.0.1, to listen
// there or to connect, cannot take it meanwhile.
func FreeAddr(t T) string {
	t.Helper()
	n := addresses.Add(1)
	l := Value(net.Listen("tcp", fmt.Sprintf("127.1.%d.%d:0", n>>8&0xff, n&0xff)))(t)
	defer l.Close()
	return l.Addr().String()
}
