package nodeconfig_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// anyValue draws a value of every kind that a config has.
func anyValue(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.SampledFrom([]any{nil, true, false, "", "null", "true", "5", "{}", "[]", "a", " a", "\"a\"", "é\u2028<&>"}),
		rapid.Map(rapid.SampledFrom([]string{"0", "5", "-5", "9007199254740993", "-123456789012345678901234567890", "5.0", "0.0", "-0.0", "0.1", "1e400", "1e-9", "-2.5"}), func(n string) any { return json.Number(n) }),
	}
	typed := rapid.Custom(func(t *rapid.T) any {
		name := rapid.SampledFrom([]string{"!secret", "!date", "!float", "!map", "!"}).Draw(t, "type")
		return map[string]any{name: scalars[0].Draw(t, "of the type")}
	})
	kinds := append(scalars, typed)
	if depth > 0 {
		kinds = append(kinds,
			rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "", "~/", "!x"}), anyValue(depth-1), 0, 3), func(m map[string]any) any { return m }))
	}
	return rapid.OneOf(kinds...)
}

// anyConfig draws an object.
func anyConfig(t *rapid.T, label string) map[string]any {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "!d"}), anyValue(2), 0, 4).Draw(t, label)
}

// plain is JSON as the standard library writes it, which is not what is tested.
func plain(t testkit.T, v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	testkit.Must(t, e.Encode(v))
	return b.Bytes()
}

// TestDecodeLosesNothing: what is read, written and read again is the same, kind by kind: null
// is there, an integer keeps its digits, a float stays one.
func TestDecodeLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyConfig(t, "v")
		written := testkit.Value(nodeconfig.Canonical(plain(t, v)))(t)
		if got := testkit.Value(nodeconfig.Decode(written))(t); !reflect.DeepEqual(got, any(v)) {
			t.Fatalf("%s is read as %#v and was %#v", written, got, v)
		}
	})
}

// TestFormTellsValuesApart: two configs have one form only if they are one config, but for the
// order of sets.
func TestFormTellsValuesApart(t *testing.T) {
	r := &nodeconfig.Rules{Sets: map[string]string{"a": "a", "b": ""}}
	rapid.Check(t, func(t *rapid.T) {
		v := anyConfig(t, "v")
		other := anyConfig(t, "other")
		if rapid.Bool().Draw(t, "one member changes") {
			other = map[string]any{}
			for k, e := range v {
				other[k] = e
			}
			k := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "member")
			other[k] = anyValue(2).Draw(t, "to")
		}
		one, two := plain(t, v), plain(t, other)
		same := reflect.DeepEqual(r.Form(one), r.Form(two))
		none := &nodeconfig.Base{Desired: raw("{}"), Observed: raw("{}")}
		if differs := len(r.Compare(one, two, none)) > 0; differs == same {
			t.Fatalf("%s and %s: one form is %v, and they differ is %v", one, two, same, differs)
		}
		if same && !reflect.DeepEqual(v, other) && !sets(v, other) {
			t.Fatalf("%s and %s have one form", one, two)
		}
		mixed := testkit.Value(r.Mix(one, two, fields(r.Compare(one, two, none))))(t)
		if left := r.Compare(mixed, two, none); len(left) > 0 {
			t.Fatalf("%s with all that %s has otherwise is %s: %v", one, two, mixed, left)
		}
	})
}

// sets reports whether two configs differ in the order of the lists that are sets alone.
func sets(v, other map[string]any) bool {
	for _, m := range []map[string]any{v, other} {
		for _, k := range []string{"a", "b"} {
			if list, is := m[k].([]any); is {
				slices.SortFunc(list, func(x, y any) int { return cmp.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
			}
		}
	}
	return reflect.DeepEqual(v, other)
}

// TestCompareSeesEachChangeOfKind: the values that something else takes for one another.
func TestCompareSeesEachChangeOfKind(t *testing.T) {
	values := []string{"", "null", `""`, "{}", "[]", `"null"`, `"{}"`, `"[]"`, "0", "0.0", "-0.0", `"0"`, "1", "1.0", `"1"`, `"1.0"`, "true", `"true"`, "9007199254740992", "9007199254740993",
		`"2024-05-01"`, `{"!date":"2024-05-01"}`, `{"!datetime":"2024-05-01"}`, `"x"`, `{"!secret":"x"}`, `{"!other":"x"}`, `{"!secret":["x"]}`, `["x"]`, `{"!map":{"!secret":"x"}}`, `{"$secret":"x"}`, `[null]`, `[[]]`, `[{}]`, `[""]`}
	for _, at := range []string{`{"m":%s}`, `{"in":{"m":%s,"n":1}}`, `{"list":[{"m":%s}]}`, `{"outputs":[{"id":1,"m":%s}]}`} {
		config := func(v string) json.RawMessage {
			if v == "" {
				return raw(map[string]string{`{"m":%s}`: `{}`, `{"in":{"m":%s,"n":1}}`: `{"in":{"n":1}}`, `{"list":[{"m":%s}]}`: `{"list":[{}]}`, `{"outputs":[{"id":1,"m":%s}]}`: `{"outputs":[{"id":1}]}`}[at])
			}
			return raw(fmt.Sprintf(at, v))
		}
		for i, a := range values {
			for j, b := range values {
				x, y := config(a), config(b)
				base := &nodeconfig.Base{Desired: x, Observed: x}
				if changed := rules().Changed(y, base); changed != (i != j) {
					t.Errorf("%s after %s is a change: %v", y, x, changed)
				}
			}
		}
	}
}

func TestMixWithNull(t *testing.T) {
	r := rules()
	for _, tc := range []struct{ ours, theirs, field, want string }{
		{`{"a":null}`, `{"a":{"b":1}}`, "a/b", `{"a":{"b":1}}`},
		{`{"p":{"g":null,"h":null}}`, `{"p":{"g":{"e":"x"}}}`, "p/g/e", `{"p":{"g":{"e":"x"},"h":null}}`},
		{`{"a":1}`, `{"a":null}`, "a", `{"a":null}`},
		{`{}`, `{"a":{"b":null}}`, "a/b", `{"a":{"b":null}}`},
		{`{"a":null}`, `{}`, "a", `{}`},
		{`{"a":null,"b":1}`, `{}`, "b", `{"a":null}`},
		{`{"outputs":null}`, `{"outputs":[{"id":1,"to":null}]}`, "outputs/1/to", `{"outputs":[{"id":"1","to":null}]}`},
		{`{"a":{"!secret":"x"}}`, `{"a":{"b":1}}`, "a/b", ""},
		{`{"a":{"$secret":"x"}}`, `{"a":{"b":1}}`, "a/b", ""},
		{`{"a":{"!tag":{"b":1}}}`, `{"a":{"!tag":{"b":2}}}`, "a/!tag/b", `{"a":{"!tag":{"b":2}}}`},
	} {
		got, err := r.Mix(raw(tc.ours), raw(tc.theirs), []string{tc.field})
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s with %s of %s is %s, %v; want %s", tc.ours, tc.field, tc.theirs, got, err, tc.want)
		}
	}
}

func TestSharedFieldsUnderALegs(t *testing.T) {
	for _, tc := range []struct{ shared, own, want string }{
		{`{"a":1,"b":{"c":1}}`, `{"a":null,"b":{"c":null}}`, `{"a":null,"b":{"c":null}}`},
		{`{"a":null}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`},
		{`{"a":{"!secret":"x"}}`, `{"a":{"!date":"y"}}`, `{"a":{"!date":"y"}}`},
		{`{"a":{"b":1}}`, `{"a":{"$secret":"x"}}`, `{"a":{"$secret":"x"}}`},
	} {
		d := nodeconfig.Definition{Shared: raw(tc.shared)}
		if got := d.Config(&nodeconfig.Leg{Config: raw(tc.own)}); string(got) != tc.want {
			t.Errorf("%s under %s is %s, want %s", tc.shared, tc.own, got, tc.want)
		}
	}
}

// TestFold: what a device does not tell apart is one form, twice as once, and nothing else is.
func TestFold(t *testing.T) {
	for _, tc := range []struct{ config, nulls, numbers string }{
		{`{"a":null,"b":[null,{"c":null}],"d":{"e":null}}`, `{"b":[null,{}],"d":{}}`, `{"a":null,"b":[null,{"c":null}],"d":{"e":null}}`},
		{`{"a":1.0,"b":[-0.0,2e3],"c":0.5,"d":"1.0"}`, `{"a":1.0,"b":[-0.0,2000.0],"c":0.5,"d":"1.0"}`, `{"a":1,"b":[0,2000],"c":0.5,"d":"1.0"}`},
		{`{"a":9007199254740993}`, `{"a":9007199254740993}`, `{"a":9007199254740993}`},
	} {
		for f, want := range map[nodeconfig.Fold]string{{Nulls: true}: tc.nulls, {Numbers: true}: tc.numbers} {
			got := testkit.Value(f.Config(raw(tc.config)))(t)
			if again := testkit.Value(f.Config(got))(t); string(got) != want || string(again) != want {
				t.Errorf("%s of %+v is %s, and again %s; want %s", tc.config, f, got, again, want)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := nodeconfig.Fold{Nulls: rapid.Bool().Draw(t, "nulls"), Numbers: rapid.Bool().Draw(t, "numbers")}
		once := testkit.Value(f.Config(plain(t, anyConfig(t, "v"))))(t)
		if twice := testkit.Value(f.Config(once))(t); string(once) != string(twice) {
			t.Fatalf("%s is folded to %s", once, twice)
		}
	})
}

// TestReferencesOfAFormatAreNoSecrets: the name below !secret is shown and can be pushed, and a
// value of another type is judged by the field that has it.
func TestReferencesOfAFormatAreNoSecrets(t *testing.T) {
	for config, refused := range map[string]bool{
		`{"users":[{"!secret":"bob"}],"password":{"!env_var":"DB"},"auth":{"code":{"!secret":"front_code"}}}`: false,
		`{"password":{"!str":"hunter2"}}`: true, `{"auth":{"code":{"!date":"2024-05-01"}}}`: true, `{"!secret":{"password":"hunter2"}}`: true,
	} {
		if err := rules().CheckSecrets(raw(config)); (err != nil) != refused {
			t.Errorf("%s: %v", config, err)
		}
	}
	if shown, found := rules().Redacted(raw(`{"auth":{"code":{"!secret":"front_code"}}}`)); found || string(shown) != `{"auth":{"code":{"!secret":"front_code"}}}` {
		t.Errorf("a reference is shown as %s", shown)
	}
}

func TestTypesOfOtherFormats(t *testing.T) {
	if name, v, is := nodeconfig.TypeOf(map[string]any{"!secret": "x"}); name != "!secret" || v != "x" || !is {
		t.Errorf("a tag is %q %v %v", name, v, is)
	}
	for _, v := range []any{nil, "!x", map[string]any{}, map[string]any{"a": 1}, map[string]any{"!a": 1, "b": 2}} {
		if _, _, is := nodeconfig.TypeOf(v); is {
			t.Errorf("%v is of a type", v)
		}
	}
	for from, to := range map[string]string{`{"!x":1}`: `{"!map":{"!x":1}}`, `{"!map":{"a":1}}`: `{"!map":{"!map":{"a":1}}}`, `{"a":1}`: `{"a":1}`, `{}`: `{}`, `{"!x":1,"!y":2}`: `{"!x":1,"!y":2}`} {
		v := testkit.Value(nodeconfig.Decode([]byte(from)))(t).(map[string]any)
		if got := string(bytes.TrimSpace(plain(t, nodeconfig.MapOf(v)))); got != to {
			t.Errorf("the map %s is written %s, want %s", from, got, to)
		}
	}
}
