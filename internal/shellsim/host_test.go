package shellsim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/agent/daemon"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// hostProcess is one machine: its agent, with whoever starts it again.
type hostProcess struct {
	w    *world
	name string
	disk *disk
	link *link
	time *hostClock
	root string

	mu       sync.Mutex
	agent    *daemon.Agent // nil while it is down
	stop     context.CancelFunc
	down     time.Duration
	enrolled uint64 // its incarnation
	folders  int
	anew     bool // the machine is to be set up anew
	token    string
	waiting  time.Time // since when it has events that it did not bring; the watch's
}

// hostClock is a machine's clock in the bubble.
type hostClock struct {
	mu    sync.Mutex
	boots int
	since time.Time
	wall  time.Duration
}

// Boot implements timeline.Clock.
func (c *hostClock) Boot() (string, clock.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("boot-%d", c.boots), clock.FromStd(time.Since(c.since)), nil
}

// Wall implements timeline.Clock.
func (c *hostClock) Wall() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return clock.FromTime(time.Now().Add(c.wall))
}

func (c *hostClock) reboot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boots++
	c.since = time.Now()
}

func (c *hostClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = d
}

// setRight is what people do who read that a clock is wrong. It reports whether it was.
func (c *hostClock) setRight() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.wall != 0
	c.wall = 0
	return was
}

func newHostProcess(w *world, name string, blockedPath bool) (*hostProcess, error) {
	h := &hostProcess{w: w, name: name, link: w.net.link(name), root: filepath.Join(w.dir, name, "root"), time: &hostClock{since: time.Now()}}
	h.newFolder()
	if err := os.MkdirAll(h.root, 0o755); err != nil || !blockedPath {
		return h, err
	}
	if err := os.Mkdir(filepath.Join(h.root, "blocked"), 0o755); err != nil {
		return nil, err
	}
	return h, os.WriteFile(filepath.Join(h.root, "blocked", "mine"), nil, 0o600)
}

// newFolder gives the host a state folder that was never used.
func (h *hostProcess) newFolder() {
	h.folders++
	h.disk = newDisk(h.w.faults, h.name, filepath.Join(h.w.dir, h.name, fmt.Sprintf("state-%d", h.folders)))
}

// run enrols the host and starts its agent again and again until ctx ends.
func (h *hostProcess) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.live(ctx)
		h.mu.Lock()
		down, anew := h.down, h.anew
		h.down = 0
		h.mu.Unlock()
		if err != nil && !anew && h.disk.err() == nil && !daemon.DiskFull(err) {
			h.w.violate("L3", "the agent of %s ended by itself: %v", h.name, err)
			return
		}
		if err := h.disk.end(); err != nil {
			h.w.violate("setup", "%v", err)
			return
		}
		pause(ctx, max(down, time.Second))
	}
}

// setUpAnew has the host lose its state, and enrol once more.
func (h *hostProcess) setUpAnew() {
	h.w.faults.count("host: set up anew")
	h.mu.Lock()
	stop := h.stop
	h.anew = true
	h.mu.Unlock()
	h.link.die()
	stop()
}

// live is one process.
func (h *hostProcess) live(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h.mu.Lock()
	h.stop = stop
	if h.anew {
		disks.Delete(h.disk.dir)
		h.newFolder()
		h.anew, h.enrolled, h.token = false, 0, ""
	}
	h.mu.Unlock()
	h.disk.begin(func() {
		stop()
		h.link.die()
	})
	if h.enrolled == 0 {
		if err := h.enrol(ctx); err != nil {
			if ctx.Err() != nil || h.time.setRight() {
				return nil
			}
			return err
		}
	}
	a, err := daemon.Open(daemon.Config{StateDir: h.disk.dir, Root: h.root, Clock: h.time, Light: true, Version: "test",
		Driver: driverName, Dial: h.link.dial, Log: h.w.log(h.name)})
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.agent = a
	h.mu.Unlock()
	h.w.trace("%s is up", h.name)
	err = a.Run(ctx)
	h.w.trace("%s ended: %v", h.name, err)
	h.mu.Lock()
	h.agent = nil
	h.mu.Unlock()
	if closed := a.Close(); err == nil {
		err = closed
	}
	return err
}

func (h *hostProcess) enrol(ctx context.Context) error {
	if h.token == "" {
		var err error
		if h.token, err = token(h.name, h.w.root, h.w.url, h.w.serverCA); err != nil {
			return err
		}
	}
	got, err := daemon.Enrol(ctx, daemon.EnrolConfig{StateDir: h.disk.dir, Token: h.token, Clock: h.time, Light: true,
		Driver: driverName, Dial: h.link.dial, Log: h.w.log(h.name)})
	h.w.ledger.mu.Lock()
	newest := h.w.ledger.enrolled[h.name]
	h.w.ledger.mu.Unlock()
	if errors.Is(err, daemon.ErrEnrolled) { // it died right after it was
		got.Incarnation, err = newest, nil
	}
	if err != nil {
		return err
	}
	if newest < got.Incarnation {
		h.w.violate("S33", "%s was enrolled as incarnation %d, and the log knows %d", h.name, got.Incarnation, newest)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enrolled = got.Incarnation
	return nil
}

// kill ends the process at once and has it start again after a while.
func (h *hostProcess) kill(down time.Duration, reboot bool) {
	h.mu.Lock()
	stop, disk := h.stop, h.disk
	h.down = down
	h.mu.Unlock()
	h.w.faults.count("host: killed")
	disk.kill()
	h.link.die()
	if reboot {
		h.w.faults.count("host: rebooted")
		h.time.reboot()
	}
	stop()
}

// restart ends the process cleanly.
func (h *hostProcess) restart(down time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
	h.w.faults.count("host: restarted")
	h.stop()
}

// status is the agent's, or nil while it is down.
func (h *hostProcess) status() *daemon.Status {
	h.mu.Lock()
	a := h.agent
	h.mu.Unlock()
	if a == nil {
		return nil
	}
	s := a.Status()
	return &s
}

// onDisk is the version of the bundle whose files the host has.
func (h *hostProcess) onDisk() string {
	raw, err := os.ReadFile(filepath.Join(h.root, "version"))
	if err != nil {
		return ""
	}
	return string(raw)
}
