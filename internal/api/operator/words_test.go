package operator

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// gap is what a sentence has where a part of it is missing.
var gap = regexp.MustCompile(`  |^ | $| [,;:.)]|[(] |[(][)]|[:;,]$|[:;,][:;,]|""|by [,;:]|of [,;:]|on [,;:]|\b(by|of|in|from|until|since|to)$`)

// filled is an event of which every field has something, as a host or a server would write it.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				filled(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("word")
		switch v.Type() {
		case reflect.TypeFor[digest.Digest]():
			v.SetString(string(digest.Of([]byte("x"))))
		case reflect.TypeFor[spec.Owner]():
			v.SetString(string(spec.Operators))
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Slice:
		switch v.Type() {
		case reflect.TypeFor[json.RawMessage]():
			v.Set(reflect.ValueOf(json.RawMessage(`{}`)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		filled(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		filled(key)
		filled(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// present are the fields that name what an event is about, or are what it says: they are never empty.
var present = []string{"Node", "Kind", "Name", "Grant", "Digest", "Resource", "TargetRef", "Rule", "Resolution", "Path", "KeptAs", "ID", "Ref", "Channel", "Workloads", "Verb",
	"To", "Input", "Reported", "BlockedBy", "What", "Level", "State", "Effect", "Rollout", "Source", "Target", "Role", "Purpose", "Action", "Host"}

// fields are the places of an event that may be empty, by their path.
func fields(t reflect.Type, at []int, name string, out map[string][]int) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		path := append(slices.Clone(at), i)
		if f.Type.Kind() == reflect.Struct {
			fields(f.Type, path, name+f.Name+".", out)
			continue
		}
		out[name+f.Name] = path
	}
}

// wordsOf is the message of an event.
func wordsOf(t *testing.T, ev reflect.Value) string {
	t.Helper()
	e := ev.Interface().(event.Event)
	return Message(Event{Type: e.EventType(), Subject: event.Subject{Kind: event.KindHost, Name: "h"}, Body: testkit.Value(json.Marshal(e))(t)})
}

// TestMessagesHaveNoGaps: whatever of an event is empty, the sentence about it has no hole: no two spaces, no
// colon with nothing behind it, nothing in quotes that are empty.
func TestMessagesHaveNoGaps(t *testing.T) {
	for _, name := range event.Types() {
		zero := testkit.Value(event.DecodeBody(name, []byte("{}")))(t)
		kind := reflect.TypeOf(zero)
		whole := func() reflect.Value {
			v := reflect.New(kind).Elem()
			filled(v)
			return v
		}
		check := func(how string, v reflect.Value) {
			t.Helper()
			if words := wordsOf(t, v); gap.MatchString(words) || strings.TrimSpace(words) == "" {
				t.Errorf("%s %s: %q", name, how, words)
			}
		}
		check("with everything", whole())
		places := map[string][]int{}
		fields(kind, nil, "", places)
		for field, at := range places { // order-free: each is tried by itself
			if slices.Contains(present, field[strings.LastIndex(field, ".")+1:]) {
				continue
			}
			v := whole()
			v.FieldByIndex(at).SetZero()
			check("without "+field, v)
		}
	}
}
