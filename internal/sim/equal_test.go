package sim

import (
	"reflect"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
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

// encoded lists the fields of a struct that are part of the encoded state.
func encoded(t reflect.Type) []int {
	var out []int
	for i := range t.NumField() {
		if f := t.Field(i); f.PkgPath == "" && f.Tag.Get("json") != "-" {
			out = append(out, i)
		}
	}
	return out
}

// fill gives every kept field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, i := range encoded(v.Type()) {
			fill(v.Field(i))
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
		for _, i := range encoded(v.Type()) {
			change(v.Field(i), path+"."+v.Type().Field(i).Name, tell)
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

// TestWhatTheLogDoesNotHoldIsSeen is S25: what somebody writes into a live state past the
// log shows at the next event where each is compared, and in any case at the end.
func TestWhatTheLogDoesNotHoldIsSeen(t *testing.T) {
	for _, model := range []Share{Never, Always} {
		w := build(Config{Seed: 1, Trust: Never, Model: model})
		w.after(5*clock.Minute, func() { w.server.state.Hosts["host00"].EventKey = []byte("nobody") })
		w.play()
		if len(w.found) != 1 || w.found[0].Invariant != "S25" || !strings.HasPrefix(w.found[0].Message, "after event") != (model == Never) {
			t.Errorf("model %v: a key that no event brought is taken: %v", model, w.found)
		}
	}
}
