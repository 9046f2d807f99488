package event_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
)

// identities are the members that name a thing by its digest where no blob of the store
// has that name, or one that only rollouts need: payloads, plans, bundles and keys.
var identities = []string{"Manifest", "Resolved", "Roster", "KeyDigest", "Target", "Digest", "Override", "Bundle", "From", "Current", "Observed"}

// TestBlobsNamesEveryDocument: a member of an event that is a digest is the name of a
// document, which is kept for it, or stands in the list above.
func TestBlobsNamesEveryDocument(t *testing.T) {
	found := 0
	for _, name := range event.Types() {
		v := reflect.New(reflect.TypeOf(zero(t, name))).Elem()
		var want []digest.Digest
		fillDigests(v, &want, "")
		slices.Sort(want)
		if got := event.Blobs(v.Interface().(event.Event)); !slices.Equal(got, want) {
			t.Errorf("%s names %v; Blobs returns %v: a document is one of its cases, another digest one of identities here", name, want, got)
		}
		if found += len(want); len(event.Blobs(zero(t, name))) != 0 {
			t.Errorf("%s without a document names one", name)
		}
	}
	if found < 7 {
		t.Errorf("only %d documents are named by any event", found)
	}
}

// fillDigests gives every digest in v a value of its own, and lists those that are no
// identities.
func fillDigests(v reflect.Value, documents *[]digest.Digest, member string) {
	if v.Type() == reflect.TypeFor[digest.Digest]() {
		d := digest.Of(fmt.Append(nil, member, len(*documents)))
		v.SetString(string(d))
		if !slices.Contains(identities, member) {
			*documents = append(*documents, d)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fillDigests(v.Field(i), documents, f.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillDigests(v.Index(0), documents, member)
	case reflect.Map:
		at := reflect.New(v.Type().Elem()).Elem()
		fillDigests(at, documents, member)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), at)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillDigests(v.Elem(), documents, member)
	}
}
