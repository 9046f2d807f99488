package oracle

import (
	"reflect"
	"slices"
	"testing"
)

// S25: a snapshot has every fact. What is not exported JSON leaves out: such a field has its
// place in saved, or is worked out again as facts are restored.
func TestS25SnapshotHasEveryFact(t *testing.T) {
	kept := map[reflect.Type][]string{
		reflect.TypeFor[Facts]():   {"accepted", "asked", "before", "channels", "docs", "hosts", "issued", "keys", "latest", "opened", "releaseEpoch", "resumed"},
		reflect.TypeFor[Rollout](): {"members"},
	}
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || typ.PkgPath() != reflect.TypeFor[Facts]().PkgPath() {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() && !slices.Contains(kept[typ], f.Name) {
				t.Errorf("%s.%s is in no snapshot", typ.Name(), f.Name)
			}
			look(f.Type)
		}
	}
	look(reflect.TypeFor[Facts]())
	if !seen[reflect.TypeFor[Machine]()] || !seen[reflect.TypeFor[Grant]()] || !seen[reflect.TypeFor[Probe]()] {
		t.Error("the test does not look at everything")
	}
}
