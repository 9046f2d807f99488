package nodesdk

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Bounds of the time between two connections.
const (
	retryLeast = 500 * time.Millisecond
	retryMost  = time.Minute
	// After a refusal that is final, until somebody acts.
	finalLeast = 2 * time.Minute
	finalMost  = 30 * time.Minute
	// A session of this length begins the backoff anew.
	stable = 30 * time.Second
	// The most of Welcome.ReconnectWithin.
	reconnectMost = 5 * time.Minute
	// Between the announcement of a key and its first use, doubled when it was refused.
	switchLeast = time.Second
	switchMost  = 10 * time.Minute
)

// node is a running node.
type node struct {
	cfg    *Config
	log    *slog.Logger
	device *device
	resume tls.ClientSessionCache // spares both ends the certificate where the server remembers
	// The key that the hello offered, and whether the server refused the next one; of the
	// one goroutine that connects.
	offered         []byte
	nextRefused     bool
	switchAfter     time.Duration
	reconnectWithin time.Duration // as the last welcome has it
}

// errSwitch ends a session so that the next one has the next key.
var errSwitch = errors.New("the node uses its next key")

// Run connects a device to a server until ctx ends, and then returns nil. It returns an
// error at once where the configuration or the node's state cannot be used; whatever is
// wrong with the device or the server it logs, and tries again.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if _, err := cfg.url(); err != nil {
		return err
	}
	st, err := openStore(cfg.StateDir, writeFile)
	if err != nil {
		return err
	}
	d := newDevice(&cfg, st)
	// What a crash left is judged, and the device's own instance read, before the first hello.
	d.mu.Lock()
	_ = d.observe(ctx) // an error is what the first snapshot reports
	d.mu.Unlock()
	var group sync.WaitGroup
	group.Go(func() { d.watch(ctx) })
	group.Go(func() { d.probe(ctx) })
	(&node{cfg: &cfg, log: cfg.Log, device: d, resume: tls.NewLRUClientSessionCache(1)}).loop(ctx)
	group.Wait()
	return st.close()
}

func (n *node) loop(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		welcomed, err := n.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if welcomed && time.Since(began) > stable {
			failures = 0
		}
		if errors.Is(err, errSwitch) {
			failures, n.nextRefused = 0, false
			continue
		}
		if n.refusedNext(err) {
			continue
		}
		pause := backoff(failures, err, rand.Float64()) //nolint:gosec // no secret
		if welcomed {
			pause = max(pause, time.Duration(rand.Float64()*float64(n.reconnectWithin))) //nolint:gosec // no secret
		}
		failures++
		n.log.Warn("not connected to the server", "node", n.cfg.Name, "error", n.device.clean(err.Error()), "next", pause.Round(time.Millisecond))
		wait(ctx, pause)
	}
}

// refusedNext reports whether the server does not know the node's next key yet: then it is
// announced again, with the present one.
func (n *node) refusedNext(err error) bool {
	var r *refusedError
	if !errors.As(err, &r) || r.Code != CodeForbidden {
		return false
	}
	if n.nextRefused { // neither: the next one is tried again, after a while
		n.nextRefused = false
		return false
	}
	n.device.mu.Lock()
	defer n.device.mu.Unlock()
	n.nextRefused = n.device.st.id.Next != nil && bytes.Equal(n.offered, n.device.st.id.Next)
	return n.nextRefused
}

// backoff is how long to wait after so many failures in a row; chance is in [0, 1).
func backoff(failures int, err error, chance float64) time.Duration {
	least, most := retryLeast, retryMost
	var r *refusedError
	if errors.As(err, &r) {
		switch {
		case r.Final:
			least, most = finalLeast, finalMost
		case r.RetryAfter > 0: // at least that, and not all nodes at once
			after := min(time.Duration(r.RetryAfter)*time.Millisecond, finalMost)
			return after + time.Duration(chance*float64(after)/4)
		}
	}
	d := most
	if failures < 20 {
		d = min(least<<failures, most)
	}
	return d/2 + time.Duration(chance*float64(d)/2)
}

// RotateKey has the node whose state is in the folder make a new key, announce it with the
// present one, and use it from then on. The node may be running, or does it at its next
// start. Both keys are kept until the server accepted the new one.
func RotateKey(stateDir string) error {
	if _, err := os.Stat(filepath.Join(stateDir, fileIdentity)); err != nil {
		return fmt.Errorf("no node has its state in %s: %w", stateDir, err)
	}
	return writeFile(filepath.Join(stateDir, fileRotate), nil)
}

// PublicKey is the Ed25519 key that the node whose state is in the folder proves itself with.
// The node may be running; where there is none yet, its folder and key are made.
func PublicKey(stateDir string) ([]byte, error) {
	s := &store{dir: stateDir}
	found, err := s.read(fileIdentity, &s.id)
	if err == nil && !found {
		if s, err = openStore(stateDir, writeFile); err == nil {
			err = s.close()
		}
	}
	if err != nil {
		return nil, err
	}
	if len(s.id.Key) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s has no usable key", filepath.Join(stateDir, fileIdentity))
	}
	return ed25519.NewKeyFromSeed(s.id.Key).Public().(ed25519.PublicKey), nil
}

// announcement is the next key, made if somebody wants one; nil if there is none.
func (n *node) announcement() (*NextKey, error) {
	d := n.device
	d.mu.Lock()
	defer d.mu.Unlock()
	id, mark := &d.st.id, filepath.Join(d.st.dir, fileRotate)
	if id.Next == nil {
		_, err := os.Stat(mark)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		id.Next = seed()
		if err := d.st.saveIdentity(); err != nil {
			id.Next = nil
			return nil, err
		}
	}
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove %s: %w", mark, err)
	}
	key, next := ed25519.NewKeyFromSeed(id.Key).Public().(ed25519.PublicKey), ed25519.NewKeyFromSeed(id.Next)
	public := next.Public().(ed25519.PublicKey)
	return &NextKey{Key: public, Proof: ed25519.Sign(next, SignedNextKey(n.cfg.Name, key, public))}, nil
}

// switchDelay is the time in which the server makes an announcement durable.
func (n *node) switchDelay() time.Duration {
	n.switchAfter = max(switchLeast, min(2*n.switchAfter, switchMost))
	return n.switchAfter
}
