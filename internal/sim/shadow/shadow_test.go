package shadow

import (
	"reflect"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// TestEveryFieldCounts is S25: two states that differ in any one field that is
// kept are never the same.
func TestEveryFieldCounts(t *testing.T) {
	a, b := plan.New(nil), plan.New(nil)
	fill(reflect.ValueOf(a).Elem())
	fill(reflect.ValueOf(b).Elem())
	if differs := differ(a, b); differs != "" {
		t.Fatalf("two states with the same fields differ in %s", differs)
	}
	changed := 0
	change(reflect.ValueOf(b).Elem(), "state", func(path string) {
		changed++
		if differ(a, b) == "" {
			t.Errorf("%s may differ and nothing sees it", path)
		}
	})
	if differs := differ(a, b); differs != "" {
		t.Fatalf("the changes were not undone: %s", differs)
	}
	if changed < 140 {
		t.Errorf("only %d fields were changed", changed)
	}
}

// kept reports whether a field is part of the encoded state.
func kept(f reflect.StructField) bool {
	return f.IsExported() && !strings.HasPrefix(f.Tag.Get("json"), "-")
}

// fill gives every kept field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if kept(v.Type().Field(i)) {
				fill(v.Field(i))
			}
		}
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k)
		fill(e)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	default:
		alter(v)
	}
}

func alter(v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	default:
		panic("nothing is known of " + v.Type().String())
	}
}

// change alters one leaf after the other, tells of it, and puts it back.
func change(v reflect.Value, path string, tell func(string)) {
	switch v.Kind() {
	case reflect.Pointer:
		change(v.Elem(), path, tell)
		was := v.Interface()
		v.SetZero()
		tell(path + " (none)")
		v.Set(reflect.ValueOf(was))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); kept(f) {
				change(v.Field(i), path+"."+f.Name, tell)
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			was := v.MapIndex(k)
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(was)
			if e.Kind() == reflect.Pointer { // it is changed in place
				change(e.Elem(), path+"[]", tell)
			} else {
				change(e, path+"[]", func(p string) {
					v.SetMapIndex(k, e)
					tell(p)
				})
			}
			v.SetMapIndex(k, reflect.Value{})
			tell(path + " (empty)")
			v.SetMapIndex(k, was)
		}
	case reflect.Slice:
		for i := range v.Len() {
			change(v.Index(i), path+"[]", tell)
		}
		was := v.Interface()
		v.SetZero()
		tell(path + " (empty)")
		v.Set(reflect.ValueOf(was))
	default:
		was := reflect.ValueOf(v.Interface())
		alter(v)
		tell(path)
		v.Set(was)
	}
}

// TestWhatTheLogDoesNotHoldIsSeen is S25: what somebody writes into a live state
// past the log shows at the next event that is about it, and whatever it is in a
// comparison of the whole.
func TestWhatTheLogDoesNotHoldIsSeen(t *testing.T) {
	for _, whole := range []bool{false, true} {
		live, sh := plan.New(nil), New(nil, true, whole)
		take := func(ev event.Event) error {
			e, err := event.NewEntry(clock.Instant(1000), "web1", ev)
			if err != nil {
				t.Fatal(err)
			}
			if err := live.ApplyEvent(e, ev); err != nil {
				t.Fatal(err)
			}
			if err := sh.Fold(e, ev); err != nil {
				t.Fatal(err)
			}
			return sh.Compare(live)
		}
		if err := take(event.HostEnrolled{Incarnation: 1, Token: "t"}); err != nil {
			t.Fatal(err)
		}
		live.Hosts["web1"].Declines = 7
		if err := take(event.HostReturned{}); err == nil || !strings.Contains(err.Error(), "host web1") {
			t.Errorf("whole=%t: a count that no event made is taken: %v", whole, err)
		}
	}
}
