package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// Roots that are replaced: each begins a key epoch, with other keys for some roles
// or all of them. What was signed before has ended; whoever missed a root takes the
// ones in between first.

// epochs is how many roots there may be: the keys of all are made once.
const epochs = 3

// edition names a release: versions begin again with an epoch.
type edition struct{ epoch, version uint64 }

func (e edition) before(o edition) bool {
	return e.epoch < o.epoch || e.epoch == o.epoch && e.version < o.version
}

// edition is that of the newest release.
func (w *World) edition() edition { return edition{w.epoch, w.version - w.starts[w.epoch-1]} }

// nth is how many releases there were with this one; it is zero when there is none.
func (w *World) nth(e edition) uint64 {
	if e.version == 0 || e.epoch == 0 || e.epoch > w.epoch {
		return 0
	}
	return w.starts[e.epoch-1] + e.version
}

// edition is that of the release that a server holds for the newest.
func (s *server) edition() edition { return edition{s.state.Release.Epoch, s.state.Release.Version} }

// rotations plans new roots, from draws of its own.
func (p *planning) rotations() {
	w, q := p.w, &planning{w: p.w, r: rand.New(rand.NewPCG(p.w.cfg.Seed, 0x524f4f54))}
	if q.r.IntN(10) != 0 {
		return
	}
	for range 1 + q.r.IntN(epochs-1) {
		wait := q.between(0, 3*clock.Minute)
		q.add(q.some(0.1), func() { w.rotate(wait) }, "a root begins a new key epoch, and %s later there is a release of it", wait)
	}
}

// rotate has the holders of the root end the key epoch, and release under the next.
func (w *World) rotate(wait clock.Duration) {
	if w.epoch == epochs || w.version == 0 {
		return
	}
	w.epoch++
	w.starts = append(w.starts, w.version)
	clear(w.listed) // what was signed before has ended
	w.rebuild = w.rand.IntN(2) == 0
	w.trust()
	w.after(wait, w.reissue)
	w.after(wait+clock.Minute, w.pushOverrides) // whoever has files of before brings them again
}

// reissue releases under the newest root until the server has that.
func (w *World) reissue() {
	if w.checks.released.Epoch == w.epoch {
		return
	}
	if !w.server.away() {
		w.push()
	}
	w.after(30*clock.Second, w.reissue)
}

// trust pushes the newest root alone.
func (w *World) trust() {
	s := w.server
	if s.away() {
		w.after(5*clock.Second, w.trust)
		return
	}
	if s.state.Root.Version > 0 && s.state.Root.Version < w.epoch && s.commit(plan.Record(s.state, "", s.now(), s.roots()...)) {
		w.refuses()
	}
}

// roots are those that the server has yet to hear of.
func (s *server) roots() (events []event.Event) {
	for n := s.state.Root.Version + 1; n <= s.w.epoch; n++ {
		events = append(events, event.RootTrusted{Version: n, Epoch: n})
	}
	return events
}

// verifier is the server's own, of the root that its log names.
func (s *server) verifier() (trust.Verifier, error) {
	return s.w.publisher.memory.NewVerifier("sim", trust.State{Root: keyring().roots[max(s.state.Root.Version, 1)-1]})
}

// refuses checks that a server which trusts a new root takes nothing that keys of
// the one before sign, neither as of the ended epoch nor as of the new one.
func (w *World) refuses() {
	if w.publisher == nil {
		return
	}
	v, err := w.server.verifier()
	if err != nil {
		w.violate("S5", "%v", err)
		return
	}
	e := w.server.state.Root.Epoch
	for _, claimed := range []uint64{e - 1, e} {
		old := keyring().roles[e-2]
		if claimed == e && old[trust.RoleEnrol].KeyID() == keyring().roles[e-1][trust.RoleEnrol].KeyID() {
			continue // this root went on with the key
		}
		t, err := w.token(w.agents[0].name, claimed, old[trust.RoleEnrol])
		if err == nil {
			_, err = identity.VerifyToken(v, t, w.now)
		}
		if err == nil {
			w.violate("S5", "a token that the enrol key of epoch %d signed for epoch %d is good in epoch %d", e-1, claimed, e)
		}
		o := w.draft(fleet.Override{Action: fleet.OverrideFreeze, Channel: w.fleet.channels[0]}).Override
		o.Epoch = claimed
		env, err := trust.SignOverride(o, old[trust.RoleOverride])
		if err == nil {
			_, err = v.Override(env, w.now)
		}
		if err == nil {
			w.violate("S5", "an override that a key of epoch %d signed for epoch %d is good in epoch %d", e-1, claimed, e)
		}
	}
}

// token signs a token for a host.
func (w *World) token(name string, epoch uint64, key trust.Signer) ([]byte, error) {
	w.serials++
	h := fleet.Document{Fleet: "sim", Epoch: epoch, Version: 1, IssuedAt: w.now}
	return identity.SignToken(identity.Token{Document: h, ID: fmt.Sprintf("%032x", w.serials), Host: name, Expires: w.now.Add(clock.Hour),
		RootDigest: keyring().names[epoch-1]}, key)
}

// verifies reports whether the server takes a token that is made for a host now: it
// has to know the root of the operator who makes it.
func (s *server) verifies(name string) bool {
	w := s.w
	if w.epoch == 1 || s.state.Root.Version == 0 {
		return true
	}
	if w.publisher == nil {
		return s.state.Root.Epoch == w.epoch
	}
	v, err := s.verifier()
	var env []byte
	if err == nil {
		env, err = w.token(name, w.epoch, keyring().roles[w.epoch-1][trust.RoleEnrol])
	}
	if err == nil {
		_, err = identity.VerifyToken(v, env, w.now)
	}
	if knows := s.state.Root.Epoch == w.epoch; knows != (err == nil) {
		w.violate("S5", "a server in epoch %d takes a token of epoch %d: %v", s.state.Root.Epoch, w.epoch, err)
	}
	return err == nil
}

// begins is what a host that enrols now trusts: the root that its token names, and
// nothing older than the server had.
func (s *server) begins() trust.State {
	e := s.w.epoch
	st := keyring().begun[e-1]
	if r := s.state.Release; e > 1 && r.Epoch == e {
		st = st.AtLeast(e, map[string]uint64{fleet.TypeResolved: r.Version, fleet.TypeTimestamp: r.Version})
	}
	return st
}

// keyEpoch is the epoch of the newest root that a host trusts.
func (a *agent) keyEpoch() uint64 {
	if a.follower != nil {
		return a.follower.Epoch()
	}
	return max(a.seen.epoch, 1)
}

// catchUp has a host follow what a heartbeat's reply says of newer roots and releases.
func (a *agent) catchUp(root uint64, release edition) {
	if !a.up || a.w.epoch == 1 {
		return
	}
	if a.follower == nil {
		if root > a.seen.epoch {
			a.seen = edition{epoch: root} // of which it has seen nothing yet
		}
		return
	}
	if !a.follower.Behind(root, release.version) {
		return
	}
	if err := a.follower.Refresh(context.Background()); err != nil {
		a.refused(err)
	}
}

// root gives a root of the chain as far as the server has it, or another one.
func (s source) root(n uint64) ([]byte, error) {
	k, w := keyring(), s.a.w
	if n == 0 || n > w.server.state.Root.Version {
		if s.lies() && n <= epochs {
			return k.forged[n-1], nil
		}
		return nil, errMissing
	}
	return s.lie(k.roots[n-1], append(slices.Clone(k.roots), k.forged[n-1])...), nil
}

// roots checks that a host goes along the chain, one by one, and takes no root that
// its holders did not sign.
func (t *checker) roots(a *agent, was, m trust.Mark, root []byte) {
	k := keyring()
	if m.Version == 0 || m.Version > epochs || m.Epoch != m.Version || string(root) != string(k.roots[m.Version-1]) || m.Digest != k.names[m.Version-1] {
		a.w.violate("S32", "%s takes a root of version %d and epoch %d, which nobody signed", a.name, m.Version, m.Epoch)
		return
	}
	if was.Version != 0 && m.Version > was.Version+1 {
		a.w.violate("S5", "%s goes from root %d to root %d and leaves out what is between", a.name, was.Version, m.Version)
	}
}

// current checks that a plan is of the epoch of the root that the host trusts.
func (t *checker) current(a *agent, p *verify.Plan) {
	m := a.w.docs[p.Host.Value().Manifest]
	if root := a.trusted.Marks[trust.TypeRoot].Epoch; m != nil && m.Header.Epoch != root {
		a.w.violate("S5", "%s accepts %s of epoch %d and trusts a root of epoch %d", a.name, m.Header.Rollout(), m.Header.Epoch, root)
	}
}

// outlives checks that no override of an ended epoch is in force on a host, and forgets those
// that it was told in one.
func (t *checker) outlives(a *agent, epoch uint64) {
	for _, o := range a.core.Overrides.List() {
		if o.Epoch < epoch && !a.lies() {
			a.w.violate("S5", "%s keeps to override %s of epoch %d in epoch %d", a.name, o.ID, o.Epoch, epoch)
		}
	}
	a.witnessed.overrides = slices.DeleteFunc(a.witnessed.overrides, func(o gate.AcceptedOverride) bool { return o.Epoch < epoch })
}
