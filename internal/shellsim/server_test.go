package shellsim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	core "github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/store/embedded"
)

// serverProcess is the server with whoever starts it again.
type serverProcess struct {
	w   *world
	dir string

	mu    sync.Mutex
	life  int
	api   *api.Server // nil while it is down
	op    *operator.Client
	store *serverStore
	net   *listener
	stop  context.CancelFunc
	down  time.Duration // before the next start
	ahead time.Duration // of its wall clock
	kept  *backup       // that was taken last
	back  *backup       // that the next start begins from
	up    chan struct{} // closed when it is up the first time
}

func newServerProcess(w *world) *serverProcess {
	return &serverProcess{w: w, dir: filepath.Join(w.dir, "server"), up: make(chan struct{})}
}

func (s *serverProcess) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

// run starts the server again and again until ctx ends.
func (s *serverProcess) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.live(ctx)
		s.mu.Lock()
		killed := s.store != nil && s.store.dead != nil
		down := s.down
		s.down = 0
		s.mu.Unlock()
		if killed && err == nil && s.broke() && ctx.Err() == nil {
			s.w.violate("L3", "the server ended as if it were well, and its disk had failed")
		}
		passing := errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy) // it met that while it started
		if err != nil && !killed && !passing && ctx.Err() == nil {
			s.w.violate("L3", "the server ended by itself: %v", err)
			return
		}
		if ctx.Err() != nil && err != nil && !killed {
			s.w.violate("L3", "the server did not stop cleanly: %v", err)
		}
		pause(ctx, max(down, time.Second))
	}
}

// broke says whether the disk failed by itself, which the process has to find.
func (s *serverProcess) broke() bool { return s.store != nil && s.store.image == nil }

// live is one process.
func (s *serverProcess) live(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.mu.Lock()
	s.life++
	life := s.life
	s.store, s.stop = nil, stop
	s.mu.Unlock()
	var l *listener
	died := func() { // in the middle of an append
		stop()
		l.die()
	}
	o := api.Options{DataDir: s.dir, Root: s.w.root, Listen: serverAddr.String(),
		Bind: func(string, string) (net.Listener, error) { return l, nil },
		OpenStore: func(ctx context.Context, dir string) (store.Store, error) {
			inner, err := embedded.Open(ctx, dir, embedded.Options{Readers: 2})
			if err != nil {
				return nil, err
			}
			st := newServerStore(inner, s.w.faults, s.w.ledger, dir, life, died)
			s.mu.Lock()
			s.store = st
			s.mu.Unlock()
			return st, nil
		},
		Control: control.Config{Now: s.now, SnapshotEvery: s.w.snapshotEvery, HostLife: s.w.hostLife,
			CollectEvery: s.w.collectEvery, KeepLog: s.w.keepLog, CollectGrace: 30 * clock.Second,
			Config: core.Config{Retention: s.w.retention, Heartbeat: s.w.heartbeat, ReplayWait: 2 * clock.Minute}, Log: s.w.log("server")}}
	l = s.w.net.listen()
	running, err := api.Start(ctx, o)
	if err == nil {
		err = s.serve(ctx, running, l)
	}
	l.die()
	s.mu.Lock()
	st := s.store
	s.mu.Unlock()
	if st != nil {
		err = errors.Join(err, st.end(), s.damage(life))
		s.mu.Lock()
		back := s.back
		s.back = nil
		s.mu.Unlock()
		if back != nil {
			err = errors.Join(err, st.restore(back))
		}
	}
	return err
}

func (s *serverProcess) serve(ctx context.Context, running *api.Server, l *listener) error {
	secret, err := os.ReadFile(running.AdminTokenFile())
	if err != nil {
		return err
	}
	op, err := operator.NewClient(operator.Options{URL: running.OperatorURL(), Token: strings.TrimSpace(string(secret)),
		ServerCA: running.ServerCA(), Dial: s.w.net.link("operator").dial})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.api, s.op, s.net = running, op, l
	first := s.life
	s.mu.Unlock()
	select {
	case <-s.up:
	default:
		close(s.up)
	}
	s.w.trace("the server is up, life %d", first)
	err = running.Wait()
	s.w.trace("the server ended: %v", err)
	s.mu.Lock()
	s.api, s.op = nil, nil
	s.mu.Unlock()
	op.Close()
	return err
}

// client is the operator's way to the server, or nil while it is down.
func (s *serverProcess) client() *operator.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.op
}

// running is the server's process, or nil while it is down.
func (s *serverProcess) running() *api.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.api
}

// kill ends the process at once and has it start again after a while.
func (s *serverProcess) kill(down time.Duration) {
	s.mu.Lock()
	st, stop, l := s.store, s.stop, s.net
	running := s.api != nil
	s.down = down
	s.mu.Unlock()
	if !running {
		return
	}
	s.w.faults.count("server: killed")
	st.kill()
	l.die()
	stop()
}

// backup keeps a copy of the log, once every host is enrolled in it.
func (s *serverProcess) backup() {
	s.mu.Lock()
	st := s.store
	running := s.api != nil
	s.mu.Unlock()
	if !running {
		return
	}
	s.w.ledger.mu.Lock()
	all := len(s.w.ledger.enrolled) == len(s.w.hosts)
	s.w.ledger.mu.Unlock()
	if !all {
		return
	}
	if b, err := st.backup(); err == nil {
		s.w.faults.count("server: backup taken")
		s.mu.Lock()
		s.kept = b
		s.mu.Unlock()
	}
}

// restore ends the process and has it start again from the backup.
func (s *serverProcess) restore(down time.Duration) {
	s.mu.Lock()
	if s.kept != nil && s.api != nil {
		s.w.faults.count("server: restored from a backup")
		s.back = s.kept
	}
	there := s.back != nil
	s.mu.Unlock()
	if there {
		s.kill(down)
	}
}

// restart ends the process as its operator does.
func (s *serverProcess) restart(down time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.api != nil {
		s.down = down
		s.w.faults.count("server: restarted")
		s.stop()
	}
}

// damage has something happen to the files between two lives.
func (s *serverProcess) damage(life int) error {
	r := s.w.faults.at("files of the server", life)
	if !s.w.faults.on() || r.IntN(3) != 0 {
		return nil
	}
	all, err := filepath.Glob(filepath.Join(s.dir, "store", "snapshots", "*"))
	if err != nil || len(all) == 0 {
		return err
	}
	newest := all[len(all)-1]
	raw, err := os.ReadFile(newest)
	if err != nil || len(raw) == 0 {
		return err
	}
	switch r.IntN(3) {
	case 0:
		s.w.faults.count("server: a snapshot was damaged")
		raw[r.IntN(len(raw))] ^= 1 << r.IntN(8)
		return os.WriteFile(newest, raw, 0o600)
	case 1:
		s.w.faults.count("server: a snapshot was cut")
		return os.WriteFile(newest, raw[:r.IntN(len(raw))], 0o600)
	default:
		s.w.faults.count("server: a snapshot is gone")
		return os.Remove(newest)
	}
}

// pause sleeps unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// status is what the server shows, without what changes with the clock.
func (s *serverProcess) status(ctx context.Context) (string, error) {
	op := s.client()
	if op == nil {
		return "", errors.New("the server is down")
	}
	hosts, err := op.Hosts(ctx)
	if err != nil {
		return "", err
	}
	rollouts, err := op.AllRollouts(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i := range hosts {
		h := &hosts[i]
		fmt.Fprintf(&b, "host %s incarnation %d phase %s rollout %s current %s grant %s failed %s health %s\n", h.Name, h.Incarnation, h.Phase, h.Rollout, h.Current.Short(), h.Grant, h.Failed, h.Health)
	}
	for i := range rollouts {
		if s.w.retention.Age < clock.Day && rollouts[i].EndedAt != 0 {
			continue // it is pruned at any time
		}
		fmt.Fprintf(&b, "rollout %s %s phase %s\n", rollouts[i].Name, rollouts[i].Manifest.Short(), rollouts[i].Phase)
	}
	return b.String(), nil
}
