package trust

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

type strictDoc struct {
	fleet.Document
	Count int               `json:"count"`
	Inner *struct{ A int }  `json:"inner"`
	Map   map[string]inMap  `json:"map"`
	List  []inMap           `json:"list"`
	Free  json.RawMessage   `json:"free"`
	Names map[string]string `json:"names"`
}

type inMap struct {
	Wave int `json:"wave"`
}

func TestDecodeIsStrict(t *testing.T) {
	for _, c := range []struct {
		in string
		ok bool
	}{
		{`{"count":1}`, true},
		{` {"count" : 1 , "new" : {"x":[1,{"y":null}]} } `, true},
		{`{"names":{"count":"a","Count":"b"}}`, true}, // a map's keys are free
		{`{"count":1,"count":1}`, false},
		{`{"count":1,"\u0063ount":1}`, false},
		{`{"Count":1}`, false},
		{`{"_TYPE":"x"}`, false},
		{`{"map":{"a":{"wave":1,"wave":2}}}`, false},
		{`{"map":{"a":{"Wave":1}}}`, false},
		{`{"list":[{"wave":1},{"WAVE":1}]}`, false},
		{`{"inner":{"a":1}}`, false}, // the field is A
		{`{"inner":{"A":1}}`, true},
		{`{"free":{"x":1,"x":2}}`, false},
		{`{"names":{"a":"1","a":"2"}}`, false},
		{`{"count":2147483647}`, true},
		{`{"count":-2147483648}`, true},
		{`{"count":2147483648}`, false}, // an int of 32 bits
		{`{"count":-2147483649}`, false},
		{`{"count":1.0}`, false},
		{`{"count":1e3}`, false},
		{`{"count":-0}`, false},
		{`{"free":0.5}`, false},
		{`{"new":9007199254740991}`, true},
		{`{"new":9007199254740992}`, false},
		{`{"new":-9007199254740992}`, false},
		{`{"new":` + strings.Repeat("9", 1000) + `}`, false},
		{`{"version":-1}`, false},
		{`{"count":"1"}`, false},
		{`{"critical":["count"]}`, true},
		{`{"critical":["fleet","map"]}`, true},
		{`{"critical":["new"],"new":1}`, false},
		{`{"critical":["Count"]}`, false},
		{`{}{}`, false},
		{`{} x`, false},
		{``, false},
		{`{"a":"` + "\xff" + `"}`, false},
		{`{"new":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`, true},
		{`{"new":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`, false},
		{`{"new":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}`, false},
		{strings.Repeat("[", 1_000_000), false},
		{`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, false}, // over the limit
	} {
		var doc strictDoc
		err := Decode([]byte(c.in), 1<<20, &doc)
		if (err == nil) != c.ok || (err != nil && CodeOf(err) != Malformed) {
			t.Errorf("%.80s: %v", c.in, err)
		}
	}
	var many strings.Builder
	for i := range 40 {
		many.WriteString(`"k` + strconv.Itoa(i) + `":1,`)
	}
	for _, dup := range []string{"k0", "k15", "k16", "k39"} {
		var doc strictDoc
		if err := Decode([]byte("{"+many.String()+`"`+dup+`":1}`), 1<<20, &doc); err == nil {
			t.Errorf("duplicate %s among many keys is accepted", dup)
		}
	}
}

func TestCanonical(t *testing.T) {
	got := testkit.Value(Canonical(map[string]any{"b": 1, "a": "ü<&>", "é": []int{3, 2}}))(t)
	if want := `{"a":"ü<&>","b":1,"é":[3,2]}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []any{1.5, uint64(MaxInteger + 1), int64(-MaxInteger - 1), map[string]any{"x": 1e300}, make(chan int)} {
		if out, err := Canonical(bad); err == nil {
			t.Errorf("%v became %s", bad, out)
		}
	}
	if out, err := Canonical(uint64(MaxInteger)); err != nil || string(out) != "9007199254740991" {
		t.Errorf("the largest integer became %s, %v", out, err)
	}
}

// TestCanonicalIsAFixedPoint: what Canonical writes, Decode reads, and it comes
// out as the same bytes.
func TestCanonicalIsAFixedPoint(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		in := fleet.Roster{Document: fleet.Document{
			Type: fleet.TypeRoster, Fleet: name.Draw(t, "fleet"),
			Version:  rapid.Uint64Range(1, MaxInteger).Draw(t, "version"),
			IssuedAt: clock.Instant(rapid.Int64Range(1, MaxInteger).Draw(t, "at")),
		}, Hosts: map[string]fleet.RosterHost{}}
		for range rapid.IntRange(0, 30).Draw(t, "hosts") {
			in.Hosts[name.Draw(t, "host")] = fleet.RosterHost{Channel: name.Draw(t, "channel"),
				Tags: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "tags")}
		}
		raw := testkit.Value(Canonical(in))(t)
		var out fleet.Roster
		testkit.Must(t, Decode(raw, MaxList, &out))
		again, err := Canonical(out)
		if err != nil || !bytes.Equal(raw, again) {
			t.Fatalf("%s\n%s\n%v", raw, again, err)
		}
	})
}
