package api_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/testkit"
)

// asks posts a question and waits for its answer on a stream, as the page does.
func (w *world) asks(secret, route, question string) (f operator.Forecast) {
	w.t.Helper()
	status, raw := w.request(secret, "POST", "/v1/operator"+route, question)
	if status != 202 {
		w.t.Fatalf("%s %s: %d %s", route, question, status, raw)
	}
	testkit.Must(w.t, json.Unmarshal([]byte(raw), &f))
	w.until("forecast "+f.ID, func() bool {
		status, raw := w.request(secret, "GET", "/v1/operator/forecasts/"+f.ID, "")
		f = operator.Forecast{}
		testkit.Must(w.t, json.Unmarshal([]byte(raw), &f))
		return status == 200 && (f.State == operator.ForecastDone || f.State == operator.ForecastFailed)
	})
	return f
}

func reportOf(t *testing.T, f operator.Forecast) (r forecast.Report) {
	t.Helper()
	if f.State != operator.ForecastDone {
		t.Fatalf("%+v", f)
	}
	testkit.Must(t, json.Unmarshal(f.Found, &r))
	return r
}

// TestForecastIsThatOfTheLog: what a worker finds of the server's state at a record is what the
// exported log gives; the same question is the same forecast, after a restart as well.
func TestForecastIsThatOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waves := "    waves:\n      - {name: first, selector: {hosts: [h-0000]}}\n      - {name: rest, selector: {all: true}}\n"
	w.release("r1", plan{hosts: 4, content: "one", waves: waves})
	stop := runAgents(t, w.agents(4)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	w.release("r2", plan{hosts: 4, content: "two", waves: waves})
	w.until("r2 to open", func() bool { return w.standing("stable@r2") != "" })
	secret := w.adminSecret()
	h := w.history()
	record := h.End()
	question := fmt.Sprintf(`{"record":%d,"start":1900000000000,"failure":0.3,"offline":0.1,"runs":25,"seed":7}`, record)

	f := w.asks(secret, "/forecasts", question)
	got := reportOf(t, f)
	fl := testkit.Value(replay.Ahead(h, nil, 1_900_000_000_000))(t)
	fl.Horizon, fl.Skew = got.Horizon, nil
	a := forecast.Default(1)
	a.Failure, a.Offline = []forecast.Rate{{Part: 0.3}}, []forecast.Rate{{Part: 0.1}}
	want := testkit.Value(forecast.Run(t.Context(), fl, a, 25, 7, nil))(t)
	if x := string(testkit.Value(json.Marshal(want))(t)); x != string(f.Found) {
		t.Errorf("the worker found\n%s\nthe log gives\n%s", f.Found, x)
	}
	if len(got.Rollouts) != 1 || got.Rollouts[0].Name != "stable@r2" || got.Rollouts[0].Hosts != 4 || len(got.Rollouts[0].Waves) != 2 {
		t.Errorf("%+v", got.Rollouts)
	}
	if again := w.asks(secret, "/forecasts", question); again.ID != f.ID || !bytes.Equal(again.Found, f.Found) {
		t.Errorf("the same question is %s, then %s", f.ID, again.ID)
	}
	other := w.asks(secret, "/forecasts", strings.Replace(question, `"seed":7`, `"seed":8`, 1))
	if other.ID == f.ID || other.State != operator.ForecastDone {
		t.Errorf("another question is %+v", other)
	}
	if f := w.asks(secret, "/forecasts", `{"rollout":"stable@r9"}`); !strings.Contains(f.Error, `no rollout "stable@r9"`) {
		t.Errorf("%+v", f)
	}
	if r := reportOf(t, w.asks(secret, "/forecasts", `{"rollout":"stable@r2","failure":1}`)); r.Finished != 0 || r.Rollouts[0].Converged != 0 {
		t.Errorf("every activation fails, and %+v", r)
	}
	tar := release.Pack(os.DirFS(w.build("r3", plan{hosts: 4, content: "three", waves: waves})))
	defer tar.Close()
	packed := base64.StdEncoding.EncodeToString(testkit.Value(io.ReadAll(tar))(t))
	if r := reportOf(t, w.asks(secret, "/forecasts", `{"release":"`+packed+`","rollout":"stable@r3"}`)); r.Rollouts[0].Hosts != 4 {
		t.Errorf("%+v", r)
	}
	if f := w.asks(secret, "/forecasts", `{"release":"`+base64.StdEncoding.EncodeToString([]byte("no tar"))+`"}`); f.State != operator.ForecastFailed || f.Error == "" {
		t.Errorf("a release that is none: %+v", f)
	}

	w.halt()
	w.start()
	if status, raw := w.request(secret, "GET", "/v1/operator/forecasts/"+f.ID, ""); status != 404 {
		t.Errorf("after a restart: %d %s", status, raw)
	}
	if again := w.asks(secret, "/forecasts", question); again.ID != f.ID || !bytes.Equal(again.Found, f.Found) {
		t.Errorf("after a restart it is another one: %+v", again)
	}
}

// otherwise is what steady replay finds of the log up to a record with something changed.
func (w *world) otherwise(record uint64, wish replay.Wish) *replay.WhatIf {
	w.t.Helper()
	h := w.history()
	h.Records = h.Records[:record]
	assumed := forecast.Default(1)
	assumed.Activation = forecast.Range{} // as measured
	out := testkit.Value(replay.Rerun(h, testkit.Value(wish.Change())(w.t), replay.Options{Assumed: assumed, Seed: 1, Beyond: clock.Day}))(w.t)
	return out.WhatIf(operator.Messages)
}

// TestRerunIsThatOfTheLog: what a worker finds of a change is what replay finds of the exported log.
func TestRerunIsThatOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one"})
	stop := runAgents(t, w.agents(3)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	secret := w.adminSecret()
	h := w.history()
	begun := map[uint64]bool{}
	for _, from := range []uint64{0, h.End() / 2} {
		f := w.asks(secret, "/reruns", fmt.Sprintf(`{"record":%d,"policy":["soak=2h"],"from":%d}`, h.End(), from))
		if f.State != operator.ForecastDone {
			t.Fatalf("%+v", f)
		}
		var got replay.WhatIf
		testkit.Must(t, json.Unmarshal(f.Found, &got))
		want := w.otherwise(h.End(), replay.Wish{Policy: []string{"soak=2h"}, From: from})
		if x := string(testkit.Value(json.Marshal(want))(t)); x != string(f.Found) || got.Divergence == nil {
			t.Errorf("the worker found\n%s\nthe log gives\n%s", f.Found, x)
		}
		if r := got.End.Rollouts[0]; r.Tried != 3 || r.Failed != 0 || f.Runs == 0 || uint64(f.Runs) > h.End() {
			t.Errorf("%+v, after %d of %d inputs of %d records", r, f.Done, f.Runs, h.End())
		}
		begun[got.From] = true
	}
	if len(begun) != 2 {
		t.Errorf("whenever the policy is another one, the log is played from %v on", begun)
	}
	for question, status := range map[string]int{`{"policy":["soak=never"]}`: 422, `{"record":99999999}`: 404, `{"budget":["x"]}`: 422} {
		if got, raw := w.request(secret, "POST", "/v1/operator/reruns", question); got != status {
			t.Errorf("%s: %d %s", question, got, raw)
		}
	}
	if f := w.asks(secret, "/reruns", `{"drop":[99999]}`); !strings.Contains(f.Error, "no event 99999") {
		t.Errorf("%+v", f)
	}
}

// TestForecastsAreForReleasers: who may release asks, and everybody may look.
func TestForecastsAreForReleasers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	f := w.asks(w.tokenOf(operator.Releaser, clock.Hour).Secret, "/forecasts", `{"runs":3}`)
	for _, role := range []operator.Role{operator.Viewer, operator.Operator} {
		secret := w.tokenOf(role, clock.Hour).Secret
		for _, route := range []string{"/forecasts", "/reruns"} {
			if status, raw := w.request(secret, "POST", "/v1/operator"+route, `{}`); status != 403 {
				t.Errorf("%s %s: %d %s", role, route, status, raw)
			}
		}
		if status, raw := w.request(secret, "GET", "/v1/operator/forecasts/"+f.ID, ""); status != 200 {
			t.Errorf("%s: %d %s", role, status, raw)
		}
	}
	if status, raw := w.request(w.adminSecret(), "POST", "/v1/operator/forecasts", `{"runs":100000}`); status != 422 {
		t.Errorf("too many runs: %d %s", status, raw)
	}
}

// TestEventsNameTheirChanges: an event says that a rerun may leave it out where one can.
func TestEventsNameTheirChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	stop := runAgents(t, w.agents(2)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	page := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{Limit: 1000}))(t)
	h := w.history()
	kinds := map[string]int{}
	for _, e := range page.Events {
		if e.Seq > h.End() {
			break
		}
		kinds[strings.Join(e.WhatIf, ",")]++
		_, err := replay.Rerun(h, &replay.Change{Drop: []uint64{e.Seq}}, replay.Options{Beyond: clock.Hour})
		if may := slices.Contains(e.WhatIf, "drop"); may != (err == nil) {
			t.Errorf("event %d (%s) has %q, and to leave it out says %v", e.Seq, e.Type, e.WhatIf, err)
		}
	}
	if len(kinds) != 3 {
		t.Errorf("of the events of a rollout some are decided, some claims, and some from outside; there are %v", kinds)
	}
}
