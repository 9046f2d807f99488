package event_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/event"
	safe "github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestEventsEncodeAsJSON is what lets events write themselves: nobody can tell them
// from those that encoding/json writes, whatever texts they hold, or leave out.
func TestEventsEncodeAsJSON(t *testing.T) {
	text := rapid.OneOf(rapid.StringMatching(`[ !#-%'-;=?-\[\]-~]{1,12}`), rapid.Just(""), rapid.StringN(1, 8, 32),
		rapid.StringMatching(`[a-z"\\<>& \x00-\x20\x7f]{1,8}`))
	data := rapid.OneOf(rapid.SampledFrom([]string{"", "{}", "null", "7", `{"a":"b c"}`, `{"a": 1}`, " {}", "{}\n", `{"a":"<"}`, `{"a":"\u00e9"}`, `{"a":"é"}`, `{"a"`, "x", `"`}),
		rapid.StringMatching(`[{}":a-c1, ]{0,6}`))
	whole := 0
	for _, name := range event.Types() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				v := reflect.New(reflect.TypeOf(zero(t, name))).Elem()
				fill(rt, v)
				for i := range v.NumField() {
					switch f := v.Field(i); {
					case !v.Type().Field(i).IsExported():
					case f.Type() == reflect.TypeFor[json.RawMessage]():
						f.SetBytes([]byte(data.Draw(rt, "data")))
					case f.Kind() == reflect.String:
						f.SetString(text.Draw(rt, "text"))
					case f.Type() == reflect.TypeFor[map[string]string]():
						f.Set(reflect.ValueOf(rapid.MapOfN(text, text, 0, 4).Draw(rt, "texts")))
					}
					if v.Type().Field(i).IsExported() && rapid.IntRange(0, 7).Draw(rt, "left out") == 0 {
						v.Field(i).SetZero()
					}
				}
				ev := v.Interface().(event.Event)
				want, wantErr := json.Marshal(ev)
				if event.FromHost(name) {
					want = safe.JSON(want)
				}
				e, err := event.NewEntry(7, event.HostSubject("h"), ev)
				if (err == nil) != (wantErr == nil) || string(e.Body) != string(want) {
					rt.Fatalf("%+v\nis written %s (%v)\nand is      %s (%v)", ev, e.Body, err, want, wantErr)
				}
				if err == nil {
					whole++
				}
			})
		})
	}
	if whole == 0 {
		t.Fatal("no event was written")
	}
}

func BenchmarkNewEntry(b *testing.B) {
	ev := event.Granted{Grant: "g17-aaaaaaaaaaaa-update", Rollout: "stable@v2", Wave: 1, Target: "sha256:aaaa", Manifest: "sha256:bbbb", Purpose: "update",
		Expires: 1_700_000_060_000, Reason: "wave rest of stable@v2 is open", Budgets: map[string]string{"all": "1 of 3"}}
	b.ReportAllocs()
	for b.Loop() {
		testkit.Value(event.NewEntry(7, event.HostSubject("h"), ev))(b)
	}
}
