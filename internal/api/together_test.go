package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

const togetherly = 8 // of each verb at once

// together runs a verb so many times at once, and returns how many were accepted. Others have to be refused in words as a
// conflict.
func together(t *testing.T, what string, verb func(i int) error) (accepted int) {
	t.Helper()
	var done sync.WaitGroup
	var n atomic.Int64
	begin := make(chan struct{})
	for i := range togetherly {
		done.Go(func() {
			<-begin
			var refused *operator.Error
			switch err := verb(i); {
			case err == nil:
				n.Add(1)
			case !errors.As(err, &refused) || refused.Status != http.StatusConflict:
				t.Errorf("%s: %v", what, err)
			case !strings.Contains(err.Error(), "after you read") && !strings.Contains(err.Error(), "already"):
				t.Errorf("%s is refused, and not why: %v", what, err)
			}
		})
	}
	close(begin)
	done.Wait()
	return int(n.Load())
}

// TestVerbsTogetherLoseNothing: of verbs that change a value from what it is, each that is accepted is in the value
// afterwards, and no other.
func TestVerbsTogetherLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	testkit.Value(w.op.CreateSession(w.ctx(), "lab", manyParts()))(t)
	t.Run("the end of a session", w.extendsTogether)
	t.Run("parts of a session", func(t *testing.T) {
		together(t, "stop a part", func(i int) error { return w.op.SetSessionPart(w.ctx(), "lab", fmt.Sprintf("p%d", i), true) })
		for _, p := range testkit.Value(w.op.Session(w.ctx(), "lab"))(t).Parts {
			if !p.Stopped {
				t.Errorf("part %s was stopped, and is not", p.Name)
			}
		}
	})
	t.Run("bounds of a quota", w.quotasTogether)
	t.Run("a template", w.templatesTogether)
}

// manyParts is a session of as many parts as there are verbs at once.
func manyParts() operator.NewSession {
	s := awaiting()
	one := s.Parts[0]
	s.Parts = nil
	for i := range togetherly {
		one.Name = fmt.Sprintf("p%d", i)
		s.Parts = append(s.Parts, one)
	}
	return s
}

func (w *world) extendsTogether(t *testing.T) {
	before := testkit.Value(w.op.Session(w.ctx(), "lab"))(t).Timeslot
	var sum atomic.Int64
	together(t, "extend", func(i int) error {
		by := clock.Duration(1+i) * clock.Minute
		if i%3 == 2 {
			by = -by
		}
		_, err := w.op.ExtendSession(w.ctx(), "lab", operator.ExtendSession{By: by})
		if err == nil {
			sum.Add(int64(by))
		}
		return err
	})
	after := testkit.Value(w.op.Session(w.ctx(), "lab"))(t).Timeslot
	if moved := after.End.Sub(before.End); sum.Load() == 0 || moved != clock.Duration(sum.Load()).Std() {
		t.Errorf("the end moved by %s, and %s were accepted", moved, clock.Duration(sum.Load()))
	}
	if moved := after.CleanupDeadline.Sub(before.CleanupDeadline); moved != after.End.Sub(before.End) {
		t.Errorf("the cleanup deadline moved by %s", moved)
	}
}

func (w *world) quotasTogether(t *testing.T) {
	of := func() (q operator.OwnerQuota) {
		for _, one := range testkit.Value(w.op.SessionQuotas(w.ctx()))(t) {
			if one.Owner == "bob" {
				return one
			}
		}
		return q
	}
	all := session.Quota{Sessions: 1, Pods: 2, MilliCPU: 3, Memory: 4, GPUs: 5, Length: 6, Calls: []string{"lms.example"}}
	together(t, "quota", func(i int) error {
		return w.op.SetSessionQuota(w.ctx(), "bob", operator.SetQuota{Quota: all, Only: []string{session.Bounds[i%len(session.Bounds)]}})
	})
	got := of()
	if a, b := testkit.Value(json.Marshal(got.Quota))(t), testkit.Value(json.Marshal(all))(t); string(a) != string(b) {
		t.Errorf("the quota is %s, and %s was accepted", a, b)
	}
	if n := together(t, "quota of a version", func(i int) error {
		return w.op.SetSessionQuota(w.ctx(), "bob", operator.SetQuota{Quota: session.Quota{Pods: 10 + i}, Version: got.Version})
	}); n != 1 {
		t.Errorf("%d changes of one version were accepted", n)
	}
	if err := w.op.SetSessionQuota(w.ctx(), "bob", operator.SetQuota{Only: []string{"hosts"}}); err == nil || !strings.Contains(err.Error(), "expected one of sessions, pods") {
		t.Errorf("%v", err)
	}
	testkit.Must(t, w.op.SetSessionQuota(w.ctx(), "bob", operator.SetQuota{}))
	if err := w.op.SetSessionQuota(w.ctx(), "bob", operator.SetQuota{Quota: all, Version: got.Version}); err == nil || !strings.Contains(err.Error(), "was removed after you read") {
		t.Errorf("%v", err)
	}
}

func (w *world) templatesTogether(t *testing.T) {
	document := func(i int) string {
		return fmt.Sprintf("name: lab\ndescription: take %d\nparts:\n  - name: p\n    phases: [{name: wait, await: done, timeout: 1h}]\n", i)
	}
	if n := together(t, "template", func(i int) error {
		return w.op.PutSessionTemplate(w.ctx(), "lab", operator.PutTemplate{Document: document(i)})
	}); n != togetherly {
		t.Errorf("%d of %d were accepted that name no version", n, togetherly)
	}
	is := testkit.Value(w.op.SessionTemplate(w.ctx(), "lab"))(t)
	var took atomic.Int64
	if n := together(t, "template of a version", func(i int) error {
		err := w.op.PutSessionTemplate(w.ctx(), "lab", operator.PutTemplate{Document: document(100 + i), Version: is.Version})
		if err == nil {
			took.Store(int64(100 + i))
		}
		return err
	}); n != 1 {
		t.Errorf("%d changes of one version were accepted", n)
	}
	if got := testkit.Value(w.op.SessionTemplate(w.ctx(), "lab"))(t); got.Document != document(int(took.Load())) || got.Version == is.Version {
		t.Errorf("it is %+v, and take %d was accepted", got, took.Load())
	}
}

// TestResourcesTogetherLoseNothing: a resource of a host is changed from the one that was read, or not at all; of
// those that make one, one does; and a snapshot has as many takes as were accepted.
func TestResourcesTogetherLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	set := func(name string, label int, version uint64, create bool) error {
		_, err := w.op.SetResource(w.ctx(), a.name, spec.KindVolume, name, operator.SetResource{
			Spec: fmt.Appendf(nil, `{"labels":{"n":"%d"}}`, label), Version: version, Create: create, Reason: "test"})
		return err
	}
	read := func(name string) (label int, version uint64) {
		is := testkit.Value(w.op.ManagedResource(w.ctx(), a.name, spec.KindVolume, name))(t)
		var v struct{ Labels map[string]string }
		testkit.Must(t, json.Unmarshal(is.Spec, &v))
		return testkit.Value(strconv.Atoi(v.Labels["n"]))(t), is.Version
	}
	if n := together(t, "create", func(i int) error { return set("v", i, 0, true) }); n != 1 {
		t.Errorf("%d made one volume", n)
	}
	_, version := read("v")
	if n := together(t, "edit", func(i int) error { return set("v", 100+i, version, false) }); n != 1 {
		t.Errorf("%d changes of one version were accepted", n)
	}
	testkit.Must(t, set("counted", 0, 0, true))
	together(t, "count", func(int) error {
		for {
			n, version := read("counted")
			if err := set("counted", n+1, version, false); err == nil || !strings.Contains(err.Error(), "after you read it") {
				return err
			}
		}
	})
	if n, _ := read("counted"); n != togetherly {
		t.Errorf("%d of %d are counted", n, togetherly)
	}
	together(t, "settings", func(i int) error {
		n := 2 + i
		p := []operator.SettingsPatch{{Builds: &n, Reason: "r"}, {Pulls: &n, Reason: "r"}, {Starts: &n, Reason: "r"}}[i%3]
		_, err := w.op.Tune(w.ctx(), a.name, p)
		return err
	})
	s := testkit.Value(w.op.Resources(w.ctx(), a.name))(t).Settings.Pools
	if s.Builds == 0 || s.Pulls == 0 || s.Starts == 0 {
		t.Errorf("a setting was accepted, and is not there: %+v", s)
	}
}
