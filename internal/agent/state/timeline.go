package state

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Clock is what an agent knows of time. Timers come from the time package, and
// SinceBoot must advance with them.
type Clock interface {
	// Boot returns the id of the machine's boot, and the time since it, with
	// the time asleep counted.
	Boot() (id string, since clock.Duration, err error)
	// Wall returns the wall clock. Only freshness and certificates read it.
	Wall() clock.Instant
}

type machineClock struct{ bootID func() (string, error) }

// bootIDFile is where the kernel tells the id of the boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// SystemClock returns the machine's own clock.
func SystemClock() Clock { return SystemClockWithBootID(bootIDFile) }

// SystemClockWithBootID is System with the id of the boot read from another file, once,
// for a machine whose boots the kernel of its host does not count: a container, or
// one that a test plays. The file must change with every boot.
func SystemClockWithBootID(file string) Clock {
	return &machineClock{bootID: sync.OnceValues(func() (string, error) {
		b, err := os.ReadFile(file)
		return strings.TrimSpace(string(b)), err
	})}
}

func (c *machineClock) Boot() (string, clock.Duration, error) {
	id, err := c.bootID()
	if err != nil {
		return "", 0, fmt.Errorf("read the boot id: %w", err)
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return "", 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return id, clock.FromStd(time.Duration(ts.Nano())), nil
}

func (c *machineClock) Wall() clock.Instant { return clock.FromTime(time.Now()) }

// Timeline is the agent's own clock: it counts on from where it was, over
// restarts and reboots, and never jumps with the wall clock. Time while the
// machine is off does not pass.
type Timeline struct {
	src    Clock
	base   clock.Instant
	bootID string
}

// TimelineDoc is what is persisted of a timeline.
type TimelineDoc struct {
	BootID string        `json:"bootId"`
	Base   clock.Instant `json:"base"`
}

// BeginTimeline is a timeline that starts with the wall clock.
func BeginTimeline(src Clock) (TimelineDoc, clock.Instant, error) {
	id, since, err := src.Boot()
	now := src.Wall()
	return TimelineDoc{BootID: id, Base: now.Add(-since)}, now, err
}

// Resume continues a timeline; last is the latest instant known to have been.
func (d TimelineDoc) Resume(src Clock, last clock.Instant) (*Timeline, error) {
	id, since, err := src.Boot()
	if err != nil {
		return nil, err
	}
	t := &Timeline{src: src, base: d.Base, bootID: id}
	if d.BootID != id || d.Base.Add(since) < last {
		t.base = last.Add(-since)
	}
	return t, nil
}

// Doc returns what to persist.
func (t *Timeline) Doc() TimelineDoc { return TimelineDoc{BootID: t.bootID, Base: t.base} }

// BootID names the boot in which the timeline was resumed.
func (t *Timeline) BootID() string { return t.bootID }

// Now returns the instant. A clock that cannot be read stands still at the base.
func (t *Timeline) Now() clock.Instant {
	_, since, err := t.src.Boot()
	if err != nil {
		return t.base
	}
	return t.base.Add(since)
}
