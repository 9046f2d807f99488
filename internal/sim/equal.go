package sim

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// differ names a part in which two states are not the same, or is empty.
func differ(a, b *plan.State) string {
	if len(a.Hosts) != len(b.Hosts) || len(a.Channels) != len(b.Channels) || len(a.Rollouts) != len(b.Rollouts) {
		return "the number of something"
	}
	for name, h := range a.Hosts { // order-free: any that differs will do
		if !same(h, b.Hosts[name]) {
			return "host " + name
		}
	}
	for name, c := range a.Channels { // order-free: any that differs will do
		if !same(c, b.Channels[name]) {
			return "channel " + name
		}
	}
	for d, r := range a.Rollouts { // order-free: any that differs will do
		if !sameRollout(r, b.Rollouts[d]) {
			return "rollout " + d.Short()
		}
	}
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for _, i := range kept(x.Type()) {
		switch name := x.Type().Field(i).Name; name {
		case "Hosts", "Channels", "Rollouts":
		default:
			if !equal(x.Field(i), y.Field(i)) {
				return name
			}
		}
	}
	return ""
}

// sameRollout compares what is kept, and of what is derived the members with their
// marks and their counts: a state that was read back has them of few rollouts. Which
// members the planner looks at no more it works out again, and no event tells of it.
func sameRollout(a, b *rollout.Rollout) bool {
	member := func(a, b rollout.Member) bool {
		return a.Status == b.Status && a.Online == b.Online && a.Final == b.Final && a.HasSlot == b.HasSlot && a.Mark == b.Mark
	}
	return same(a, b) && (a == nil || a.Plan == nil || b.Plan == nil || slices.EqualFunc(a.Members, b.Members, member) && slices.Equal(a.Waves, b.Waves))
}

// same compares the fields of two values that their encoding keeps.
func same[T any](a, b *T) bool { return equal(reflect.ValueOf(a), reflect.ValueOf(b)) }

func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Pointer:
		return a.Pointer() == b.Pointer() || !a.IsNil() && !b.IsNil() && equal(a.Elem(), b.Elem())
	case reflect.Struct:
		for _, i := range kept(a.Type()) {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() || a.Pointer() == b.Pointer() {
			return a.Len() == b.Len()
		}
		if a.Type().Elem().Kind() == reflect.Uint8 {
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
		for i := range a.Len() {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for i := a.MapRange(); i.Next(); {
			if v := b.MapIndex(i.Key()); !v.IsValid() || !equal(i.Value(), v) {
				return false
			}
		}
		return true
	}
	return a.CanInt() && a.Int() == b.Int() || a.CanUint() && a.Uint() == b.Uint()
}

var layouts sync.Map // the kept fields of each type of struct

// kept lists the fields of a struct that are part of its encoding.
func kept(t reflect.Type) []int {
	if known, ok := layouts.Load(t); ok {
		return known.([]int)
	}
	var out []int
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() && !strings.HasPrefix(f.Tag.Get("json"), "-") {
			out = append(out, i)
		}
	}
	layouts.Store(t, out)
	return out
}
