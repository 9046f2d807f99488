package nodeconfig_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestNormal(t *testing.T) {
	leg := func(role, node string) nodeconfig.Leg { return nodeconfig.Leg{Role: role, Node: node} }
	for _, tc := range []struct {
		why, kind, name string
		def             nodeconfig.Definition
		want            string // of the error; empty is none
	}{
		{"a flow", nodeconfig.Flow, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{leg("flow", "n")}}, ""},
		{"no such kind", "Pipe", "a", nodeconfig.Definition{}, "expected 1 to 40"},
		{"no name", nodeconfig.Flow, "A b", nodeconfig.Definition{}, "name"},
		{"no such mode", nodeconfig.Tunnel, "a", nodeconfig.Definition{Mode: "fast"}, "unknown mode"},
		{"a leg is left out", nodeconfig.Tunnel, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{leg("ingress", "n")}}, `no leg "egress"`},
		{"a leg of another mode", nodeconfig.Tunnel, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{leg("ingress", "n"), leg("egress", "n"), leg("relay", "n")}}, "has no leg"},
		{"a leg twice", nodeconfig.Flow, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{leg("flow", "n"), leg("flow", "m")}}, "twice"},
		{"no node", nodeconfig.Flow, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{leg("flow", "")}}, "node"},
		{"two legs in one place", nodeconfig.Tunnel, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: "ingress", Node: "n", ID: "x"}, {Role: "egress", Node: "n", ID: "x"}}}, "another id"},
		{"an id of two lines", nodeconfig.Flow, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: "flow", Node: "n", ID: "a\nb"}}}, "one line"},
		{"a config that is a list", nodeconfig.Flow, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: "flow", Node: "n", Config: raw("[1]")}}}, "no JSON object"},
		{"a config that is too large", nodeconfig.Flow, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: "flow", Node: "n", Config: raw(`{"a":"` + strings.Repeat("x", nodeconfig.MaxConfig) + `"}`)}}}, "bytes of config"},
	} {
		d, err := nodeconfig.Normal(tc.kind, tc.name, tc.def)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.why, err, tc.want)
		}
		if err == nil {
			again := testkit.Value(nodeconfig.Normal(tc.kind, tc.name, d))(t)
			if a, b := testkit.Value(json.Marshal(d))(t), testkit.Value(json.Marshal(again))(t); string(a) != string(b) {
				t.Errorf("%s: the normal form of %s is %s", tc.why, a, b)
			}
		}
	}
	d := testkit.Value(nodeconfig.Normal(nodeconfig.Tunnel, "t", nodeconfig.Definition{Shared: raw(`{"mtu":1400,"tls":{"on":true}}`), Legs: []nodeconfig.Leg{
		{Role: "egress", Node: "b", Config: raw(`{"tls":{"sni":"x"},"gone":null}`)}, {Role: "ingress", Node: "a"}}}))(t)
	if d.Mode != "direct" || d.Legs[0].Role != "ingress" || d.Legs[0].ID != "t.ingress" || string(d.Legs[0].Config) != "{}" {
		t.Errorf("the normal form is %+v", d)
	}
	if got := string(d.Config(&d.Legs[1])); got != `{"gone":null,"mtu":1400,"tls":{"on":true,"sni":"x"}}` {
		t.Errorf("a leg with what is shared is %s", got)
	}
}

func TestDecodeBounds(t *testing.T) {
	deep := strings.Repeat("[", nodeconfig.MaxDepth+2) + strings.Repeat("]", nodeconfig.MaxDepth+2)
	for _, bad := range []string{"", "{", "nul", deep, `{"a":1,"a":2}`, `{} {}`, `{}}`, `[1]]`, `{"a":1,}`, `[1 2]`} {
		if v, err := nodeconfig.Decode([]byte(bad)); err == nil {
			t.Errorf("%.40q is %v", bad, v)
		}
	}
	for _, ok := range []string{"{}", " [1] \n", deep[1 : len(deep)-1], `{"a":null}`, "5"} {
		testkit.Value(nodeconfig.Decode([]byte(ok)))(t)
	}
}

func TestNumbersKeepEveryDigit(t *testing.T) {
	for from, to := range map[string]string{
		"1": "1", "-0": "0", "12345678901234567891": "12345678901234567891", "100000000000000000000000000000": "100000000000000000000000000000", "-9223372036854775809": "-9223372036854775809",
		"1.0": "1.0", "1.00": "1.0", "1e3": "1000.0", "5.002e3": "5002.0", "0.10": "0.1", "0e9": "0.0", "-0.0": "-0.0", "-0e1": "-0.0", "-1.50": "-1.5",
		"0.12345678901234567890123": "0.12345678901234567890123", "1E400": "1e400", "1e-9": "1e-9", "100e-2": "1.0", "123e-8": "0.00000123",
		"1e21": "1e21", "1e20": "100000000000000000000.0", "1E99999999999999999999": "1E99999999999999999999", "1.0e-9223372036854775808": "1.0e-9223372036854775808",
	} {
		got := string(testkit.Value(nodeconfig.Canonical(raw(`{"n":` + from + `}`)))(t))
		if got != `{"n":`+to+`}` {
			t.Errorf("%s is written %s, want %s", from, got, to)
		}
	}
}

// rules of the configs that are drawn.
func rules() *nodeconfig.Rules {
	return &nodeconfig.Rules{Sets: map[string]string{"outputs": "id", "tags": ""}, Secrets: []string{"auth/*", "keys/*/key"}, Ignored: []string{"stats", "outputs/*/seen"}, Ports: []string{"port", "udp udp", "outputs/*/listen"}}
}

// drawn is a config: fields, objects, sets, lists and secrets.
func drawn(t *rapid.T, label string) json.RawMessage {
	scalar := rapid.OneOf(rapid.Just[any]("a<b>&"), rapid.Just[any]("5"), rapid.Just[any](5), rapid.Just[any](1.5), rapid.Just[any](true), rapid.Just[any](""),
		rapid.Just[any](nil), rapid.Just[any](map[string]any{}), rapid.Just[any]([]any{}), rapid.Just[any](json.Number("5.0")), rapid.Just[any](map[string]any{"!date": "2024-05-01"}))
	m := map[string]any{}
	for _, f := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b/c", "d~e", "port"}), rapid.ID).Draw(t, label) {
		m[f] = scalar.Draw(t, f)
	}
	if rapid.Bool().Draw(t, "nested") {
		m["nested"] = map[string]any{"x": scalar.Draw(t, "x"), "y": map[string]any{"z": scalar.Draw(t, "z")}}
		if rapid.Bool().Draw(t, "less") {
			delete(m["nested"].(map[string]any), "x")
		}
	}
	if rapid.Bool().Draw(t, "outputs") {
		list := []any{}
		for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(1, 4), 1, 3, rapid.ID).Draw(t, "ids") {
			list = append(list, map[string]any{"id": id, "to": scalar.Draw(t, "to"), "seen": rapid.IntRange(0, 3).Draw(t, "seen")})
		}
		m["outputs"] = list
	}
	if rapid.Bool().Draw(t, "tags") {
		m["tags"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"u", "v", "w"}), 1, 3, rapid.ID).Draw(t, "tagged")
	}
	if rapid.Bool().Draw(t, "order") {
		m["order"] = rapid.SliceOfN(rapid.IntRange(0, 2), 1, 3).Draw(t, "ordered")
	}
	if rapid.Bool().Draw(t, "auth") {
		m["auth"] = map[string]any{"pass": rapid.SampledFrom([]any{"hmac:1", map[string]any{"$secret": "S"}}).Draw(t, "secret")}
	}
	m["stats"] = map[string]any{"n": rapid.IntRange(0, 9).Draw(t, "n")}
	return testkit.Value(nodeconfig.Canonical(testkit.Value(json.Marshal(m))(t)))(t)
}

func fields(list []diff.Difference) []string {
	var out []string
	for _, d := range list {
		out = append(out, d.Field)
	}
	return out
}

// TestS46EqualConfigsDoNotDiffer: a config is no drift of itself, nor one with its sets in
// another order or its numbers spelt otherwise.
func TestS46EqualConfigsDoNotDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawn(t, "c")
		v := testkit.Value(nodeconfig.Decode(c))(t).(map[string]any)
		for _, set := range []string{"outputs", "tags"} {
			if list, is := v[set].([]any); is {
				slices.Reverse(list)
			}
		}
		other := strings.ReplaceAll(string(testkit.Value(json.Marshal(v))(t)), ":1.5,", ":150e-2,")
		for _, base := range []*nodeconfig.Base{nil, {Desired: c, Observed: c}} {
			if d := rules().Compare(c, raw(other), base); len(d) > 0 {
				t.Fatalf("%s and %s differ: %v", c, other, d)
			}
		}
	})
}

// TestS46NothingDiffersAfterAnAcknowledgement, whatever the device made of what it was sent,
// but for what anybody changes afterwards, each field once with who changed it.
func TestS46NothingDiffersAfterAnAcknowledgement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired, observed := drawn(t, "desired"), drawn(t, "observed")
		base := &nodeconfig.Base{Desired: desired, Observed: observed}
		r := rules()
		if d := r.Compare(desired, observed, base); len(d) > 0 || r.Changed(observed, base) {
			t.Fatalf("right after it was acknowledged %s differs from %s: %v", observed, desired, d)
		}
		ours, theirs := drawn(t, "ours"), drawn(t, "theirs")
		found := r.Compare(ours, theirs, base)
		want, seen, wasWanted, wasSeen := r.Form(ours), r.Form(theirs), r.Form(desired), r.Form(observed)
		by := map[string]diff.Cause{}
		for _, d := range found {
			if by[d.Field] != "" {
				t.Fatalf("field %s is found twice", d.Field)
			}
			by[d.Field] = d.Cause
		}
		same := func(a, b diff.Form, f string) bool {
			x, inA := a[f]
			y, inB := b[f]
			return inA == inB && x == y
		}
		lost := func(f string) bool { // that nobody asked for, and the device had
			_, wanted := want[f]
			_, asked := wasWanted[f]
			_, had := wasSeen[f]
			return !wanted && !asked && had
		}
		all := maps.Clone(want)
		maps.Copy(all, seen)
		maps.Copy(all, wasSeen)
		for f := range all {
			cause := diff.Cause("")
			switch mine, theirs := !same(want, wasWanted, f), !same(seen, wasSeen, f); {
			case r.Ignores(f) || same(want, seen, f) && !lost(f) || !mine && !theirs:
			case mine && theirs:
				cause = diff.Both
			case mine:
				cause = diff.Declared
			default:
				cause = diff.Outside
			}
			if by[f] != cause {
				t.Fatalf("field %s is %q, want %q", f, by[f], cause)
			}
		}
	})
}

// TestMixTakesWhatDiffers: with every field that differs taken from the other side nothing
// differs any more, and with none nothing changes.
func TestMixTakesWhatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn(t, "a"), drawn(t, "b")
		r := &nodeconfig.Rules{Sets: rules().Sets}
		empty := &nodeconfig.Base{Desired: raw("{}"), Observed: raw("{}")}
		mixed := testkit.Value(r.Mix(a, b, fields(r.Compare(a, b, empty))))(t)
		if d := r.Compare(mixed, b, empty); len(d) > 0 {
			t.Fatalf("%s with all that %s has otherwise is %s: %v", a, b, mixed, d)
		}
		if same := testkit.Value(r.Mix(a, b, nil))(t); string(same) != string(a) {
			t.Fatalf("%s with nothing of another is %s", a, same)
		}
	})
	r := rules()
	for _, tc := range []struct{ ours, theirs, field, want string }{
		{`{"a":{"b":1}}`, `{}`, "a/b", `{}`},
		{`{"a":5}`, `{"a":{"b":1}}`, "a/b", ""},
		{`{"outputs":[{"id":1,"to":2}]}`, `{"outputs":[{"id":1,"to":3},{"id":2,"to":4}]}`, "outputs/1/to", `{"outputs":[{"id":1,"to":3}]}`},
		{`{"outputs":[{"id":1}]}`, `{}`, "outputs/1/id", `{}`},
		{`{"tags":["u","v"]}`, `{"tags":["v"]}`, "tags/u", `{"tags":["v"]}`},
	} {
		got, err := r.Mix(raw(tc.ours), raw(tc.theirs), []string{tc.field})
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s with %s of %s is %s, %v", tc.ours, tc.field, tc.theirs, got, err)
		}
	}
}

// TestPushedLeavesIgnoredFields: what is ignored is pushed as the node has it, all else as
// wanted: one rule for compare and push.
func TestPushedLeavesIgnoredFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, has := drawn(t, "want"), drawn(t, "has")
		r := rules().With([]string{"nested/y", "a"})
		form, wanted, seen := r.Form(r.Pushed(want, has)), r.Form(want), r.Form(has)
		for f := range form {
			if strings.HasPrefix(f, "nested") {
				continue // an object that has lost its last member is one no more
			}
			if _, kept := wanted[f]; strings.HasSuffix(f, "/seen") && seen[f] == "" || !kept && strings.HasPrefix(f, "outputs") {
				continue // of an element that one side does not have
			}
			from := wanted
			if r.Ignores(f) {
				from = seen
			}
			if form[f] != from[f] {
				t.Fatalf("field %s of %s over %s is %q", f, want, has, form[f])
			}
		}
		if left := r.Compare(want, r.Pushed(want, has), &nodeconfig.Base{Desired: want, Observed: want}); slices.ContainsFunc(left, func(d diff.Difference) bool { return !strings.HasPrefix(d.Field, "nested") }) {
			t.Fatalf("%s over %s lacks %v", want, has, left)
		}
	})
}

func TestSecretsAreRefusedByFieldAlone(t *testing.T) {
	const canary = "c4n4ry-value"
	for _, tc := range []struct{ config, field string }{
		{`{"auth":{"pass":"` + canary + `"}}`, "auth/pass"},
		{`{"auth":{"pass":12345}}`, "auth/pass"},
		{`{"keys":[{"key":"` + canary + `"}]}`, "keys/0/key"},
		{`{"password":"` + canary + `"}`, "password"},
		{`{"deep":[["x",{"api_token":"` + canary + `"}]]}`, "deep/0/1/api_token"},
		{`{"url":"rtmp://u:` + canary + `@h/x"}`, "url"},
		{`{"auth":{"pass":"hmac:1"},"keys":[{"key":{"$secret":"S"}}],"auths":"x"}`, ""},
		{`{"auth":{"pass":""}}`, ""},
	} {
		err := rules().CheckSecrets(raw(tc.config))
		if (err != nil) != (tc.field != "") || err != nil && (!strings.Contains(err.Error(), tc.field+" ") || strings.Contains(err.Error(), canary)) {
			t.Errorf("%s: %v, want one that names %q", tc.config, err, tc.field)
		}
	}
	for config, want := range map[string]string{
		`{"auth":{"pass":"` + canary + `","pin":7},"keys":[{"key":"` + canary + `"},{"key":"hmac:2"}],"b":"kept"}`: `{"auth":{"pass":"hmac:withheld","pin":"hmac:withheld"},"b":"kept","keys":[{"key":"hmac:withheld"},{"key":"hmac:2"}]}`,
		`{"auth":`: `{}`,
	} {
		if got, found := rules().Redacted(raw(config)); string(got) != want || !found {
			t.Errorf("%s is shown as %s, %v", config, got, found)
		}
	}
	if got, found := rules().Redacted(raw(`{"a":1}`)); string(got) != `{"a":1}` || found {
		t.Errorf("what has no secret is shown as %s, %v", got, found)
	}
}

func TestListensAndOverlaps(t *testing.T) {
	ports := rules().Listens(raw(`{"port":8080,"udp":"127.0.0.1:53","outputs":[{"id":1,"listen":[":90","[::]:91","[::1]:92"]},{"id":2,"listen":"none"}]}`))
	var got []string
	for _, p := range ports {
		got = append(got, p.String())
	}
	if want := "8080/tcp 127.0.0.1:53/udp 90/tcp 91/tcp [::1]:92/tcp"; strings.Join(got, " ") != want {
		t.Errorf("it listens on %v, want %s", got, want)
	}
	port := func(protocol, address string, n uint16) nodeconfig.Port {
		return nodeconfig.Port{Protocol: protocol, Address: address, Number: n}
	}
	for _, tc := range []struct {
		a, b nodeconfig.Port
		want bool
	}{
		{port("tcp", "", 80), port("tcp", "10.0.0.1", 80), true}, {port("tcp", "10.0.0.1", 80), port("tcp", "10.0.0.2", 80), false},
		{port("tcp", "", 80), port("udp", "", 80), false}, {port("tcp", "", 80), port("tcp", "", 81), false},
	} {
		if tc.a.Overlaps(tc.b) != tc.want || tc.b.Overlaps(tc.a) != tc.want {
			t.Errorf("%s overlaps %s: want %v", tc.a, tc.b, tc.want)
		}
	}
}

func TestRulesAreBounded(t *testing.T) {
	many := make([]string, 300)
	for i := range many {
		many[i] = "a"
	}
	for _, r := range []nodeconfig.Rules{{Ignored: many}, {Secrets: []string{""}}, {Sets: map[string]string{strings.Repeat("x", 300): ""}}} {
		if r.Check() == nil {
			t.Errorf("%.60v is accepted", r)
		}
	}
	testkit.Must(t, rules().Check())
}

// FuzzDecode: what decodes is written in one form, which decodes to the same, compares with
// itself as equal and is of bounded depth.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"id":"x"}],"auth":{"k":"v"}}`, `{"outputs":[{"id":1},{"id":"1"}]}`, `"top"`, `{"n":1e-7,"":{}}`, `{"$secret":"S"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := rules()
		shown, _ := r.Redacted(b)
		_ = r.CheckSecrets(b)
		_ = r.Listens(b)
		if _, err := nodeconfig.Decode(b); err != nil {
			return
		}
		if d := r.Compare(b, b, &nodeconfig.Base{Desired: b, Observed: b}); len(d) > 0 {
			t.Errorf("it differs from itself: %v", d)
		}
		again, found := r.Redacted(shown)
		if string(again) != string(shown) || found {
			t.Errorf("what is shown, %s, is shown as %s", shown, again)
		}
		c, err := nodeconfig.Canonical(b)
		if err != nil {
			return
		}
		if twice, err := nodeconfig.Canonical(c); err != nil || string(twice) != string(c) {
			t.Errorf("the form of %s is %s, %v", c, twice, err)
		}
		if d := r.Compare(b, c, nil); len(d) > 0 {
			t.Errorf("%s differs from its form %s: %v", b, c, d)
		}
	})
}
