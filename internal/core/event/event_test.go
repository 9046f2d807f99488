package event_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/vocabulary.txt again; only lines may be added to it")

const vocabulary = "testdata/vocabulary.txt"

// TestVocabularyOnlyGrows compares every event type and its fields with what was
// released: old logs must stay readable for ever.
func TestVocabularyOnlyGrows(t *testing.T) {
	var have []string
	for _, name := range event.Types() {
		have = append(have, name+": "+strings.Join(fields(reflect.TypeOf(zero(t, name)), ""), " "))
	}
	for _, in := range []host.Input{host.Claimed{}, host.Activated{}, host.ActivationFailed{}, host.ActivationDeferred{}, host.ProbeObserved{},
		host.Contact{}, host.Elapsed{}, host.RevertClaimed{}, host.RevertCompleted{}, host.RevertFailed{}, host.Booted{}, host.RebootClaimed{},
		host.RebootFailed{}, host.RevertDeferred{}} {
		have = append(have, "input "+in.Kind()+": "+strings.Join(fields(reflect.TypeOf(in), ""), " ")) // the data of host.stepped
	}
	got := strings.Join(have, "\n") + "\n"
	if *rewrite {
		testkit.Must(t, os.WriteFile(vocabulary, []byte(got), 0o644))
	}
	want := testkit.Value(os.ReadFile(vocabulary))(t)
	for _, line := range strings.Split(strings.TrimSpace(string(want)), "\n") {
		name, released, _ := strings.Cut(line, ": ")
		i := -1
		for k := range have {
			if strings.HasPrefix(have[k], name+":") {
				i = k
			}
		}
		if i < 0 {
			t.Errorf("event type %s was released and is gone", name)
			continue
		}
		now := " " + strings.TrimPrefix(have[i], name+": ") + " "
		for _, f := range strings.Fields(released) {
			if !strings.Contains(now, " "+f+" ") {
				t.Errorf("field %s of event %s was released and is gone or changed", f, name)
			}
		}
	}
	if !t.Failed() && got != string(want) {
		t.Errorf("the vocabulary has grown; run go test ./internal/core/event -rewrite and commit it:\n%s", cmp.Diff(string(want), got))
	}
}

func zero(t *testing.T, name string) event.Event {
	t.Helper()
	ev, err := event.DecodeBody(name, []byte("{}"))
	if err != nil {
		t.Fatalf("decode %s: %v", name, err)
	}
	return ev
}

// fields lists the JSON names and kinds of a type, nested ones by path.
func fields(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			out = append(out, fields(f.Type, prefix)...)
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct {
			inner = inner.Elem()
		}
		out = append(out, prefix+name+"="+f.Type.Kind().String())
		if inner.Kind() == reflect.Struct {
			out = append(out, fields(inner, prefix+name+".")...)
		}
	}
	return out
}

// TestEveryEventReadsBackUnchanged fills every field of every type with random
// values and takes it through its entry. A field without a JSON name would be
// dropped silently.
func TestEveryEventReadsBackUnchanged(t *testing.T) {
	for _, name := range event.Types() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				v := reflect.New(reflect.TypeOf(zero(t, name))).Elem()
				fill(rt, v)
				ev := v.Interface().(event.Event)
				en, err := event.NewEntry(clock.Instant(7), event.HostSubject("h"), ev)
				if err != nil {
					rt.Fatalf("encode: %v", err)
				}
				if en.Type != name || en.At != 7 || en.Host() != "h" {
					rt.Fatalf("entry is %+v", en)
				}
				back, err := event.Decode(en)
				if err != nil {
					rt.Fatalf("decode: %v", err)
				}
				if event.FromHost(name) {
					clean(v)
				}
				ev = v.Interface().(event.Event)
				if diff := cmp.Diff(ev, back, cmp.AllowUnexported(event.HostStepped{})); diff != "" {
					rt.Fatalf("read back otherwise: %s", diff)
				}
			})
		})
	}
}

// clean puts every text of v on one line, as what hosts report is read.
func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				clean(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString(prose.Line(v.String()))
	case reflect.Slice:
		for i := range v.Len() {
			clean(v.Index(i))
		}
	case reflect.Pointer:
		clean(v.Elem())
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for it := v.MapRange(); it.Next(); {
			k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			k.Set(it.Key())
			e.Set(it.Value())
			clean(k)
			clean(e)
			m.SetMapIndex(k, e)
		}
		v.Set(m)
	}
}

// TestTextOfHostsIsCleanAsItIsRead: whatever a host puts into the body that it signs,
// in whatever field, what is read of it does nothing to a terminal and begins no line.
func TestTextOfHostsIsCleanAsItIsRead(t *testing.T) {
	hostile := "x\x1b[2J\a\r\u009b31m\u202e\u200b\n9999 server FORGED"
	raw := testkit.Value(json.Marshal(map[string]any{"grant": hostile, "code": "busy", "detail": hostile}))(t)
	ev, err := event.Decode(event.Entry{Type: "host.grant_declined", Subject: event.HostSubject("h"), Body: raw})
	if d, ok := ev.(event.GrantDeclined); err != nil || !ok || strings.ContainsFunc(d.Detail+d.Grant, prose.Unsafe) || !strings.Contains(d.Detail, "FORGED") {
		t.Fatalf("%+v, %v", ev, err)
	}
	data, err := json.Marshal(map[string]any{"code": "exit-1", "detail": hostile})
	testkit.Must(t, err)
	raw, err = json.Marshal(map[string]any{"input": "activation-failed", "data": json.RawMessage(data), "from": "activating", "to": "failed", "detail": hostile})
	testkit.Must(t, err)
	ev, err = event.Decode(event.Entry{Type: "host.stepped", Subject: event.HostSubject("h"), Body: raw})
	step, ok := ev.(event.HostStepped)
	if err != nil || !ok {
		t.Fatalf("%+v, %v", ev, err)
	}
	in, err := step.HostInput()
	if failed, ok := in.(host.ActivationFailed); err != nil || !ok || strings.ContainsFunc(failed.Detail+step.Detail, prose.Unsafe) {
		t.Fatalf("%+v, %v", in, err)
	}
	entry, err := event.NewEntry(1, event.HostSubject("h"), event.GrantDeclined{Detail: hostile})
	if err != nil || strings.ContainsFunc(string(entry.Body), prose.Unsafe) || strings.Contains(string(entry.Body), "u001b") {
		t.Fatalf("an agent reports %s, %v", entry.Body, err)
	}
}

// fill sets every field of v to a value that is not its zero.
func fill(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"a":1}`))
		return
	}
	if _, ok := v.Addr().Interface().(interface{ UnmarshalText([]byte) error }); ok {
		v.SetString("sha256:" + strings.Repeat(rapid.StringMatching("[0-9a-f]").Draw(t, "hex"), 64))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i))
			}
		}
	case reflect.String:
		v.SetString(rapid.StringN(1, 8, 32).Draw(t, "string"))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(1, 1<<53).Draw(t, "int"))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Range(1, 1<<53).Draw(t, "uint"))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "bytes"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, k)
		fill(t, e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	default:
		panic(fmt.Sprintf("fill does not know %s", v.Type()))
	}
}

func TestUnknownTypeStopsTheReader(t *testing.T) {
	_, err := event.DecodeBody("host.danced", []byte("{}"))
	var unknown *event.UnknownTypeError
	if !errors.As(err, &unknown) || unknown.Type != "host.danced" || !strings.Contains(err.Error(), "newer") {
		t.Fatalf("decode said %v", err)
	}
}

func TestMalformedBodyIsAnError(t *testing.T) {
	for _, body := range []string{"", "null x", `{"rollout":7}`, `{"manifest":"sha256:short"}`} {
		if _, err := event.DecodeBody(event.RolloutOpened{}.EventType(), []byte(body)); err == nil {
			t.Errorf("%q was read", body)
		}
	}
}

// TestFromHostIsExactlyTheHostsOwn checks that a host can report its own types
// and none of the server's.
func TestFromHostIsExactlyTheHostsOwn(t *testing.T) {
	own := map[string]bool{}
	for _, ev := range []event.Event{event.HostStepped{}, event.GrantDeclined{}, event.TrustRefused{}, event.BundleQuarantined{},
		event.FileKept{}, event.HostFacts{}, event.ResourceReported{}, event.WorkloadsRemoved{}, event.RepairNeeded{}, event.RepairOver{}} {
		own[ev.EventType()] = true
	}
	for _, name := range event.Types() {
		if event.FromHost(name) != own[name] {
			t.Errorf("FromHost(%s) is %t", name, event.FromHost(name))
		}
	}
}

func TestHostSteppedCarriesCauseOnFailure(t *testing.T) {
	before, after := host.State{Phase: host.Soaking}, host.State{Phase: host.Failed, Cause: host.ProbeFailing, Detail: "why"}
	ev, err := event.NewHostStepped(&before, &after, host.Elapsed{})
	if err != nil || ev.Cause != host.ProbeFailing || ev.Detail != "why" || ev.From != host.Soaking || ev.To != host.Failed || ev.Input != "elapsed" {
		t.Fatalf("reported %+v, %v", ev, err)
	}
}
