package trust

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

func pause() fleet.Override {
	return fleet.Override{Document: fleet.Document{Fleet: testFleet, Epoch: 1, IssuedAt: day0}, ID: "o-1", Action: fleet.OverridePause,
		Channel: "stable", Rollout: "stable@v1", Manifest: digest.Of([]byte("m")), Reason: "incident 7", NotAfter: day0.Add(clock.Day)}
}

// TestS18OverrideIsTakenFromTheOverrideRoleAlone: an operator's word counts in its
// fleet, its epoch and its time, by the override role's threshold of keys, and not
// with one byte of it changed.
func TestS18OverrideIsTakenFromTheOverrideRoleAlone(t *testing.T) {
	k := newKeys(t, "first")
	st := testkit.Value(Begin(testFleet, k.root(t, 1, 1), ""))(t)
	v := testkit.Value(NewVerifier(testFleet, st))(t)
	good := testkit.Value(SignOverride(pause(), k[RoleOverride]))(t)
	now := day0.Add(clock.Minute)
	got, err := v.Override(good, now)
	if err != nil || got.Value().Version != uint64(day0) || got.Value().Type != fleet.TypeOverride || got.Digest() == "" {
		t.Fatalf("%+v %v", got, err)
	}
	change := func(f func(*fleet.Override)) []byte {
		o := pause()
		o.Type, o.Version = fleet.TypeOverride, uint64(o.IssuedAt)
		f(&o)
		return envelope(t, fleet.TypeOverride, o, k[RoleOverride])
	}
	for name, c := range map[string]struct {
		env  []byte
		at   clock.Instant
		want Code
	}{
		"signed by the release key":   {envelope(t, fleet.TypeOverride, pause(), k[RoleRelease]), now, ManifestVerifyFailed},
		"signed by the timestamp key": {envelope(t, fleet.TypeOverride, pause(), k[RoleTimestamp]), now, ManifestVerifyFailed},
		"another fleet's":             {change(func(o *fleet.Override) { o.Fleet = "other" }), now, WrongFleet},
		"an ended epoch's":            {change(func(o *fleet.Override) { o.Epoch = 0 }), now, Rollback},
		"an epoch ahead":              {change(func(o *fleet.Override) { o.Epoch = 2 }), now, RootInvalid},
		"a version ahead":             {change(func(o *fleet.Override) { o.Version++ }), now, Malformed},
		"by name alone":               {change(func(o *fleet.Override) { o.Manifest = "" }), now, Malformed},
		"for too long":                {change(func(o *fleet.Override) { o.NotAfter = day0.Add(91 * clock.Day) }), now, Malformed},
		"a field nobody knows":        {change(func(o *fleet.Override) { o.Critical = []string{"onlyOnMondays"} }), now, Malformed},
		"too early":                   {good, day0.Add(-Slack - 1), FutureDated},
		"too late":                    {good, day0.Add(clock.Day), Expired},
		"an entry of another type":    {envelope(t, fleet.TypeManagedEntry, pause(), k[RoleOverride]), now, ManifestVerifyFailed},
		"nothing":                     {nil, now, ManifestMissing},
		"very much":                   {append(bytes.Clone(good), make([]byte, MaxOverride)...), now, Malformed},
	} {
		if _, err := v.Override(c.env, c.at); CodeOf(err) != c.want {
			t.Errorf("%s: %v, expected %s", name, err, c.want)
		}
	}
	floored := v.state.clone()
	floored.Floor = day0.Add(2 * clock.Day)
	v2, err := v.With(floored)
	testkit.Must(t, err)
	if _, err := v2.Override(good, now); CodeOf(err) != Expired {
		t.Errorf("a clock that was set back revives it: %v", err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if other, err := v.Override(bad, now); err == nil {
			t.Fatalf("byte %d changed and it is taken: %+v", i, other.Value())
		}
	}
}

// TestOverrideThreshold: where the root asks for two operators, one is not enough.
func TestOverrideThreshold(t *testing.T) {
	k, second := newKeys(t, "first"), signer(t, "second operator")
	spec := k.spec()
	spec[RoleOverride] = RoleSpec{Keys: []ed25519.PublicKey{k[RoleOverride].Public(), second.Public()}, Threshold: 2}
	r := testkit.Value(NewRoot(head(TypeRoot, 1, 1), day0.Add(365*clock.Day), spec))(t)
	root := testkit.Value(SignRoot(r, k[RoleRoot]))(t)
	st := testkit.Value(Begin(testFleet, root, ""))(t)
	v := testkit.Value(NewVerifier(testFleet, st))(t)
	one := testkit.Value(SignOverride(pause(), k[RoleOverride]))(t)
	if _, err := v.Override(one, day0); CodeOf(err) != ManifestVerifyFailed {
		t.Errorf("one of two: %v", err)
	}
	both := testkit.Value(AddSignatures(one, second))(t)
	if _, err := v.Override(both, day0); err != nil {
		t.Errorf("both: %v", err)
	}
}

func TestSignOverrideChecksFirst(t *testing.T) {
	o := pause()
	o.Reason = ""
	if _, err := SignOverride(o, newKeys(t, "first")[RoleOverride]); CodeOf(err) != Malformed {
		t.Errorf("signed without a reason: %v", err)
	}
}

// FuzzOverride: what is taken of arbitrary payloads signed by the right key keeps
// every bound, and has one meaning.
func FuzzOverride(f *testing.F) {
	k := newKeys(f, "first")
	st := testkit.Value(Begin(testFleet, k.root(f, 1, 1), ""))(f)
	v := testkit.Value(NewVerifier(testFleet, st))(f)
	o := pause()
	o.Type, o.Version = fleet.TypeOverride, uint64(o.IssuedAt)
	f.Add([]byte(canonical(f, o)))
	o.Action, o.Manifest, o.Rollout, o.Bundle, o.Host = fleet.OverrideUnquarantine, "", "", digest.Of([]byte("b")), "web-1"
	f.Add([]byte(canonical(f, o)))
	f.Add([]byte(`{"_type":"steady/override/v1","action":"pause","Action":"resume"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		env, err := Sign(fleet.TypeOverride, payload, k[RoleOverride])
		if err != nil {
			return
		}
		got, err := v.Override(env, day0)
		if err != nil {
			if CodeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		o := got.Value()
		if err := o.Check(); err != nil || o.Fleet != testFleet || o.Epoch != 1 || o.NotAfter <= day0 || len(o.Reason) > fleet.MaxOverrideReason {
			t.Fatalf("taken: %+v, %v", o, err)
		}
		again, err := v.Override(envelope(t, fleet.TypeOverride, o, k[RoleOverride]), day0)
		if err != nil {
			t.Fatalf("its canonical form is refused: %v", err)
		}
		if a, b := string(canonical(t, again.Value())), string(canonical(t, o)); a != b {
			t.Fatalf("%s became %s", b, a)
		}
	})
}

// TestOperatorsPerAction: one operator holds, always; two loosen where the root
// names two; and nobody breaks the glass alone, whatever the root's threshold is.
func TestOperatorsPerAction(t *testing.T) {
	k, second := newKeys(t, "first"), signer(t, "second operator")
	for _, named := range []int{1, 2} {
		spec := k.spec()
		if named == 2 {
			spec[RoleOverride] = RoleSpec{Keys: []ed25519.PublicKey{k[RoleOverride].Public(), second.Public()}, Threshold: 1}
		}
		r := testkit.Value(NewRoot(head(TypeRoot, 1, 1), day0.Add(365*clock.Day), spec))(t)
		root := testkit.Value(SignRoot(r, k[RoleRoot]))(t)
		st := testkit.Value(Begin(testFleet, root, ""))(t)
		v := testkit.Value(NewVerifier(testFleet, st))(t)
		for _, action := range fleet.OverrideActions {
			o := pause()
			o.Action, o.NotAfter = action, day0.Add(clock.Hour)
			switch action {
			case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
				o.Manifest, o.Rollout, o.Bundle = "", "", digest.Of([]byte("b"))
			case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
				o.Manifest, o.Rollout = "", ""
			case fleet.OverrideRemove:
				o.Manifest, o.Rollout, o.Host, o.Incarnation, o.Workloads = "", "", "web-1", 1, fleet.Stop
			case fleet.OverridePromote:
				o.Wave = "canary"
			}
			one := testkit.Value(SignOverride(o, k[RoleOverride]))(t)
			alone := action.Restricts() || named == 1 && action != fleet.OverrideBreakGlass
			if _, err := v.Override(one, day0); (err == nil) != alone {
				t.Errorf("%s by one operator of %d: %v", action, named, err)
			}
			both := testkit.Value(AddSignatures(one, second))(t)
			if _, err := v.Override(both, day0); (err == nil) != (named == 2) {
				t.Errorf("%s by two operators, the root names %d: %v", action, named, err)
			}
			if twice, err := AddSignatures(one, k[RoleOverride]); err == nil && !alone {
				if _, err := v.Override(twice, day0); err == nil {
					t.Errorf("%s signed twice by one operator is taken", action)
				}
			}
		}
	}
}
