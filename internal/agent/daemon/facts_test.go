package daemon

import (
	"fmt"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
)

// machineOf has so many CPUs.
func machineOf(cpus int) fstest.MapFS {
	stat := ""
	for i := range cpus {
		stat += fmt.Sprintf("cpu%d 1 2 3\n", i)
	}
	return fstest.MapFS{"proc/stat": {Data: []byte(stat)}, "proc/meminfo": {Data: []byte("MemTotal: 2048 kB\n")}}
}

// A host says what it is in its own chain, once, and again when it is another machine; never to a
// server that does not ask. As another incarnation it says so anew.
func TestHostSaysWhatItIs(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1")
	told := func() []event.HostFacts { return reported[event.HostFacts](s) }
	beats := func() {
		t.Helper()
		n := s.heartbeats()
		b.start()
		testkit.Eventually(t, "a heartbeat", func() bool { return s.heartbeats() > n })
		b.settled()
		b.stop()
	}
	b.machine = machineOf(2)
	beats()
	if len(told()) != 0 {
		t.Fatalf("it told %+v to who did not ask", told())
	}

	s.set(func() { s.facts = true })
	b.start()
	testkit.Eventually(t, "facts", func() bool { return len(told()) == 1 })
	b.settled()
	b.stop()
	is := told()[0]
	if is.CPUs != 2 || is.Memory != 2<<20 || is.Arch != runtime.GOARCH || is.Disk <= 0 || is.Engine != "" {
		t.Errorf("it is %+v", is)
	}
	beats()
	if len(told()) != 1 {
		t.Fatalf("what did not change was told again: %+v", told())
	}

	b.machine = machineOf(4)
	b.start()
	testkit.Eventually(t, "other facts", func() bool { return len(told()) == 2 })
	b.settled()
	b.stop()
	if now := told()[1]; now.CPUs != 4 || now.Memory != is.Memory {
		t.Errorf("it is %+v", now)
	}

	again := newBox(t, s, "web-1")
	again.machine = b.machine
	again.start()
	testkit.Eventually(t, "the facts of another incarnation", func() bool { return len(told()) == 3 })
}

// Facts that cannot be measured keep nobody from anything.
func TestHostThatCannotBeMeasured(t *testing.T) {
	s := newServer(t)
	s.facts = true
	b := newBox(t, s, "web-1")
	b.machine = fstest.MapFS{}
	b.start()
	testkit.Eventually(t, "a heartbeat", func() bool { return s.heartbeats() > 0 })
	b.settled()
	if got := reported[event.HostFacts](s); len(got) != 0 {
		t.Errorf("it is %+v", got)
	}
}
