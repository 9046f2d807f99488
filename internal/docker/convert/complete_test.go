package convert_test

import (
	"maps"
	"reflect"
	"regexp"
	"strconv"
	"testing"

	"github.com/moby/moby/api/types/image"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/testkit"
)

// elsewhere are declared fields that are in no form, and why.
var elsewhere = map[string]string{
	`\.Title`:                     "the name on the engine comes resolved, in Inputs",
	`\.Image`:                     "resolved to an ID, in Inputs",
	`\.(State|ReportOnly)`:        "how it runs is in RunInfo",
	`\.Update\..*`:                "of replacing, not of the container",
	`\.DependsOn.*`:               "of the order of deployment",
	`\.Platform`:                  "decides which image the reference means",
	`.*\.(CreateHost|Blob\.Size)`: "how it is made, not what it is",
	`\.NetworkMode`:               "not with networks; refused by the reader of declarations",
	`.*\.Beneath`:                 "what its source is held to when it is made",
	`.*\.Priority`:                "the order of connecting alone",
	`\.MAC`:                       "of the first network, which has its own here",
}

// whole has a value in every field.
func whole() spec.Workspace {
	var w spec.Workspace
	fillValue(reflect.ValueOf(&w).Elem())
	w.Image, w.NoEntry, w.NoCommand, w.Restart.Policy, w.Health.Disable = "app", false, false, "on-failure", false
	w.Networks[0].Network, w.Networks[0].MAC, w.Networks[0].IPv4, w.Networks[0].IPv6 = "front", "02:42:0a:05:00:09", "10.5.0.9", "fd00::9"
	w.Ports[0].HostIP, w.Ports[0].Protocol = "127.0.0.1", "tcp"
	w.Namespaces.IPC, w.Namespaces.PID = "host", "host"
	m := w.Mounts[0]
	m.CreateHost = false
	w.Mounts = nil
	for i, x := range []spec.MountType{spec.MountVolume, spec.MountBind, spec.MountTmpfs} {
		n := m
		n.Type, n.Target = x, "/m"+strconv.Itoa(i)
		if x == spec.MountVolume {
			n.Source = "data"
		}
		w.Mounts = append(w.Mounts, n)
	}
	w.Env = []spec.Env{{Name: "A", Value: "x"}, {Name: "B", Secret: "db"}}
	w.Contents[0].Tree = false
	w.Contents = append(w.Contents, w.Contents[0])
	w.Contents[0].Secret, w.Contents[1].Blob, w.Contents[1].Secret, w.Contents[1].Target = "", nil, "db", "/c1"
	w.Limits.BlkioDevices[0].What = "weight"
	return w
}

// fillValue puts something into every field below v.
func fillValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(20)
	case reflect.Uint32:
		v.SetUint(20)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

// leaves calls f with each field below v and something that changes it.
func leaves(path string, v reflect.Value, f func(path string, change func())) {
	switch v.Kind() {
	case reflect.String:
		f(path, func() { v.SetString(v.String() + "7") })
	case reflect.Bool:
		f(path, func() { v.SetBool(!v.Bool()) })
	case reflect.Int, reflect.Int64:
		f(path, func() { v.SetInt(v.Int() + 2000) })
	case reflect.Uint32:
		f(path, func() { v.SetUint(v.Uint() + 1) })
	case reflect.Pointer:
		if !v.IsNil() {
			leaves(path, v.Elem(), f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			leaves(path+"["+strconv.Itoa(i)+"]", v.Index(i), f)
		}
	case reflect.Map:
		f(path, func() { v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("w")) })
		f(path, func() { v.SetMapIndex(reflect.ValueOf("k2"), reflect.ValueOf("v")) })
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(path+"."+v.Type().Field(i).Name, v.Field(i), f)
		}
	}
}

// TestEveryFieldIsCompared changes each declared field by itself: the form
// changes, or there is an error, or the field is known to be none of the form's.
// A field that a later version declares and forgets here fails.
func TestEveryFieldIsCompared(t *testing.T) {
	in := convert.Inputs{Name: "n", API: "1.48", Digest: key, Image: &image.InspectResponse{ID: "sha256:1"},
		Networks: map[string]string{"net": "1"}, Secrets: map[string]string{"db": "hmac:1"}}
	formOf := func(w spec.Workspace) (map[string]string, error) {
		d := &spec.Deployment{Workspace: w, Uses: spec.Uses{Networks: map[string]string{"front": "net"}, Volumes: map[string]string{"data": "vol"}}}
		return convert.Workspace(d, in)
	}
	plain := whole()
	want := testkit.Value(formOf(plain))(t)
	count, unseen := 0, map[string]bool{}
	seen := map[string]bool{}
	probe := whole()
	var paths int
	leaves("", reflect.ValueOf(&probe).Elem(), func(string, func()) { paths++ })
	for n := range paths {
		w, i := whole(), 0
		leaves("", reflect.ValueOf(&w).Elem(), func(path string, change func()) {
			if i++; i-1 != n {
				return
			}
			change()
			count++
			got, err := formOf(w)
			if changed := err != nil || !maps.Equal(got, want); changed {
				seen[generic(path)] = true
			} else {
				unseen[generic(path)] = true
			}
		})
	}
	if count < 120 {
		t.Fatalf("only %d fields", count)
	}
	for path := range unseen {
		if seen[path] || excused(path) {
			continue // another entry of the list shows it
		}
		t.Errorf("%s changes nothing in the form: write it into the form, or say why not", path)
	}
	for re, why := range elsewhere {
		needed := false
		for path := range unseen {
			needed = needed || !seen[path] && regexp.MustCompile(`^`+re+`$`).MatchString(path)
		}
		if !needed {
			t.Errorf("%s is excused (%s), and nothing needs it", re, why)
		}
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

func generic(path string) string { return index.ReplaceAllString(path, "[i]") }

func excused(path string) bool {
	for re := range elsewhere {
		if regexp.MustCompile(`^` + re + `$`).MatchString(path) {
			return true
		}
	}
	return false
}
