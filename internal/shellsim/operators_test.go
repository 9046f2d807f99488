package shellsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
)

// push has a release accepted. It reports whether the server said that it was.
func (w *world) push(ctx context.Context, ref string, what flavour) bool {
	w.pushing <- struct{}{}
	defer func() { <-w.pushing }()
	dir := filepath.Join(w.dir, "release-"+ref)
	if _, err := os.Stat(dir); err != nil {
		v, err := w.fleet.build(dir, ref, what, w.root, w.prev)
		if err != nil {
			w.violate("setup", "build %s: %v", ref, err)
			return false
		}
		w.prev = v
		w.refs = append(w.refs, ref)
	}
	for range 4 {
		op, before := w.server.client(), w.ledger.restored()
		if op == nil {
			pause(ctx, 5*time.Second)
			continue
		}
		got, err := func() (operator.Pushed, error) {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			packed := release.Pack(os.DirFS(filepath.Join(dir, "release")))
			defer packed.Close()
			// Nobody asks the server for its newest release before the next one is built: it may
			// lack one that it lost, or that never arrived.
			return op.PushRestored(ctx, packed)
		}()
		w.trace("push of %s: %+v, %v", ref, got, err)
		if err == nil {
			w.ledger.mu.Lock()
			there := w.ledger.accepted[ref]
			w.ledger.mu.Unlock()
			if !there && w.ledger.restored() == before {
				w.violate("S33", "release %s was %s, and is not in the log", ref, got.Outcome)
			}
			w.checkKept(ctx, dir, before)
			return true
		}
		if refused := (*operator.Error)(nil); errors.As(err, &refused) && refused.Status < 500 && refused.Status != 429 {
			w.violate("L3", "release %s was refused: %v", ref, err)
			return false
		}
		pause(ctx, 5*time.Second)
	}
	return false
}

// checkKept asks the store for all that hosts will want of a release that the server
// took.
func (w *world) checkKept(ctx context.Context, dir string, restored int) {
	w.server.mu.Lock()
	st := w.server.store
	w.server.mu.Unlock()
	for _, pattern := range []string{"bundles/*", "blobs/*"} {
		files, err := filepath.Glob(filepath.Join(dir, "release", pattern))
		if err != nil {
			w.violate("setup", "%v", err)
		}
		for _, f := range files {
			d := digest.Digest("sha256:" + strings.TrimSuffix(filepath.Base(f), ".json"))
			if there, err := st.HasBlob(ctx, d); err == nil && !there && w.ledger.restored() == restored {
				w.violate("S33", "release %s was accepted, and %s of it is not kept", filepath.Base(dir), d.Short())
			}
		}
	}
}

// verbs are what operators do. Each names its reason, by which it is found in the
// log.
var verbs = []struct {
	name string
	run  func(ctx context.Context, w *world, op *operator.Client, pick int, reason string) error
}{
	{"pause", onRollout(plan.Pause)},
	{"resume", onRollout(plan.Resume)},
	{"cancel", onRollout(plan.Cancel)},
	{"freeze", func(ctx context.Context, w *world, op *operator.Client, pick int, reason string) error {
		_, err := op.Freeze(ctx, w.hosts[pick%len(w.hosts)].name, clock.Duration(1+pick%5)*clock.Minute, reason)
		return err
	}},
	{"unfreeze", func(ctx context.Context, w *world, op *operator.Client, pick int, reason string) error {
		return op.Unfreeze(ctx, w.hosts[pick%len(w.hosts)].name, reason)
	}},
	{"promote", func(ctx context.Context, w *world, op *operator.Client, pick int, reason string) error {
		all, err := op.Rollouts(ctx)
		if err != nil || len(all) == 0 {
			return cmpErr(err)
		}
		return op.Promote(ctx, all[0].Name, "canary", reason)
	}},
	{revoke, func(ctx context.Context, w *world, op *operator.Client, pick int, reason string) error {
		h := w.hosts[pick%len(w.hosts)]
		defer h.setUpAnew() // also when the answer was lost
		return op.RevokeHost(ctx, h.name, reason)
	}},
	{"sign a freeze", func(ctx context.Context, w *world, op *operator.Client, _ int, reason string) error {
		w.mu.Lock()
		w.froze = true
		w.mu.Unlock()
		w.faults.count("operator: freeze signed")
		return sign(ctx, op, fleet.OverrideFreeze, reason)
	}},
}

// revoke is the verb that a log restored from a backup forgets, with the enrolment that
// followed: the host would be shut out for good.
const revoke = "revoke"

// sign pushes an operator's signed override for the whole channel.
func sign(ctx context.Context, op *operator.Client, action fleet.OverrideAction, reason string) error {
	_, most := action.Life()
	o := fleet.Override{Document: testfleet.Head(1, 0), ID: reason, Action: action, Channel: "stable", Reason: reason}
	o.NotAfter = o.IssuedAt.Add(most)
	env, err := trust.SignOverride(o, keys[trust.RoleOverride])
	if err == nil {
		_, err = op.PushOverride(ctx, env)
	}
	return err
}

var errNothing = errors.New("there is nothing to do it to")

func cmpErr(err error) error {
	if err == nil {
		return errNothing
	}
	return err
}

func onRollout(v plan.Verb) func(context.Context, *world, *operator.Client, int, string) error {
	return func(ctx context.Context, _ *world, op *operator.Client, pick int, reason string) error {
		all, err := op.Rollouts(ctx)
		if err != nil || len(all) == 0 {
			return cmpErr(err)
		}
		return op.Operate(ctx, v, all[pick%len(all)].Name, reason)
	}
}

// operate does one thing. What the server says it did is in the log.
func (w *world) operate(ctx context.Context, verb, pick int) {
	op := w.server.client()
	if op == nil {
		return
	}
	w.mu.Lock()
	w.verbs++
	before := w.ledger.restored()
	reason := fmt.Sprintf("reason-%d-of-%d", w.verbs, pick)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err := verbs[verb].run(ctx, w, op, pick, reason)
	w.trace("%s: %v", verbs[verb].name, err)
	if err == nil && !w.ledger.holds(reason) && w.ledger.restored() == before {
		w.violate("S33", "%s was answered well, and %s is not in the log", verbs[verb].name, reason)
	}
}

// restored counts how often the log was set back to a backup.
func (l *ledger) restored() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restores
}

// holds says whether an entry has the words.
func (l *ledger) holds(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.entries) - 1; i >= 0; i-- {
		if strings.Contains(string(l.entries[i].Body), words) {
			return true
		}
	}
	return false
}

// follow reads the server's events as they come, over every end of the stream: each
// once, in order, and as they are in the log.
func (w *world) follow(ctx context.Context) {
	var last uint64
	restored := 0
	for ctx.Err() == nil && !w.failed() {
		if n := w.ledger.restored(); n != restored {
			restored, last = n, 0
		}
		if op := w.server.client(); op != nil {
			_ = op.Follow(ctx, operator.EventQuery{After: last}, func(e operator.Event) error { // it ends with the connection
				if e.Seq != last+1 {
					w.violate("S25", "the stream of events goes from %d to %d", last, e.Seq)
				}
				last = e.Seq
				w.checkShown(e.Seq, e.Type, e.Body)
				return nil
			})
		}
		pause(ctx, 3*time.Second)
	}
}

// checkShown holds an event that the server showed against the log.
func (w *world) checkShown(seq uint64, kind string, body json.RawMessage) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	if seq > uint64(len(w.ledger.entries)) {
		w.violate("S33", "event %d (%s) was shown before it was durable", seq, kind)
		return
	}
	if e := &w.ledger.entries[seq-1]; e.Type != kind || string(e.Body) != string(body) {
		w.violate("S25", "event %d was shown as %s, and is %s", seq, kind, e.Type)
	}
}
