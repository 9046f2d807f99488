package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	placement "github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// givenPod is a pod with a secret as a variable and a file, which its container writes into its volumes.
func givenPod() session.Pod {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	return session.Pod{Name: "web", Secrets: []string{"password"}, Resources: placement.Resources{MilliCPU: 100, Memory: 16 << 20}, Workloads: []session.Workload{
		{Kind: "image", Name: "lab-web", Spec: raw(`{"ref":"steady.test/busybox:1","pull":{"policy":"never"}}`)},
		{Kind: "volume", Name: "lab-gone", Spec: raw(`{}`)},
		{Kind: "volume", Name: "lab-kept", Spec: raw(`{"keep":3600000}`)},
		{Kind: "volume", Name: "lab-later", Spec: raw(`{"keep":7200000}`)},
		{Kind: "workspace", Name: "lab-web", Spec: raw(`{"image":"lab-web","stopSignal":"SIGKILL","command":["sh","-c","echo here >> /gone/x; echo here >> /kept/x; echo $PASSWORD; cat /run/secrets/password; mkdir -p /www; echo hello > /www/index.html; exec httpd -f -p 8080 -h /www"],
			"env":[{"name":"PASSWORD","secret":"password"}],"contents":[{"target":"/run/secrets/password","secret":"password"}],
			"mounts":[{"type":"volume","source":"lab-gone","target":"/gone"},{"type":"volume","source":"lab-kept","target":"/kept"},{"type":"volume","source":"lab-later","target":"/later"}],
			"limits":{"nanoCPUs":100000000,"memory":16777216}}`)},
		{Kind: "route", Name: "lab-web", Spec: raw(`{"host":"web.localhost","workspace":"lab-web","port":8080}`)},
	}}
}

// running is the one container of the host once it runs.
func (l *lease) running(t *testing.T) (c container.InspectResponse) {
	t.Helper()
	testkit.Eventually(t, "the container runs", func() bool {
		names := l.containers(t)
		if len(names) != 1 {
			return false
		}
		got, err := l.engine.Client().ContainerInspect(t.Context(), names[0], client.ContainerInspectOptions{})
		c = got.Container
		return err == nil && c.State.Running
	})
	return c
}

// TestSessionSecretsAndVolumesOnARealEngine: a pod's secret is shown once and is in its container as a variable and a
// file; nothing that the server or the agent writes, logs or answers otherwise has it; the host forgets it at the end.
// Its route leads to it until then. A volume goes with its data, also when its part is stopped; one that is kept comes back with the part, and goes later.
func TestSessionSecretsAndVolumesOnARealEngine(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "takes minutes on a real engine: STEADY_NIGHTLY=1")
	l := newLease(t, sessionFleet)
	now := time.Now().UTC()
	made := testkit.Value(l.operator.CreateSession(t.Context(), "lab", operator.NewSession{
		Timeslot: session.Timeslot{ProvisionAt: now, Start: now, End: now.Add(time.Hour), CleanupDeadline: now.Add(2 * time.Hour)},
		Parts:    []session.Part{{Name: "shop", Pods: []session.Pod{givenPod()}}},
	}))(t)
	if len(made.Secrets) != 1 || made.Secrets[0].Pod != "shop/web" || made.Secrets[0].Name != "password" || len(made.Secrets[0].Value) < 32 {
		t.Fatalf("the answer has %d secrets", len(made.Secrets))
	}
	value := made.Secrets[0].Value
	testkit.Eventually(t, "the pod runs", func() bool {
		st := testkit.Value(l.operator.Session(t.Context(), "lab"))(t)
		return st.Parts[0].Pods[0].Phase == string(engine.Converged)
	})
	c := l.running(t)
	if env := strings.Join(c.Config.Env, "\n"); !strings.Contains(env, "PASSWORD="+value) {
		t.Error("the variable is not the value that was shown")
	}
	for _, m := range c.Mounts {
		if m.Destination == "/run/secrets/password" && string(testkit.Value(os.ReadFile(m.Source))(t)) != value {
			t.Error("the file is not the value that was shown")
		}
	}
	if urls := testkit.Value(l.operator.Session(t.Context(), "lab"))(t).Parts[0].Pods[0].URLs; !slices.Equal(urls, []string{"http://web.localhost/"}) {
		t.Errorf("its URLs are %v", urls)
	}
	testkit.Eventually(t, "the route leads to the pod", func() bool { return l.asks(t, "web.localhost") == http.StatusOK })
	secrets := filepath.Join(l.host.state, "session-secrets")
	files := testkit.Value(os.ReadDir(secrets))(t)
	if len(files) != 1 || testkit.Value(files[0].Info())(t).Mode().Perm() != 0o600 || testkit.Value(os.Stat(secrets))(t).Mode().Perm() != 0o700 {
		t.Errorf("the host keeps %v", files)
	}
	gone, kept, later := l.volume(t, c, "/gone"), l.volume(t, c, "/kept"), l.volume(t, c, "/later")
	testkit.Must(t, l.operator.SetSessionPart(t.Context(), "lab", "shop", true))
	testkit.Eventually(t, "a part that is stopped leaves what is kept", func() bool {
		return !l.engineHas(t, gone) && l.engineHas(t, kept) && len(testkit.Value(l.operator.Bin(t.Context()))(t).Volumes) == 2
	})
	testkit.Must(t, l.operator.SetSessionPart(t.Context(), "lab", "shop", false))
	l.running(t)
	testkit.Eventually(t, "the one that was kept is used again, and out of the bin", func() bool {
		text, err := os.ReadFile(filepath.Join(l.mountpoint(t, kept), "x"))
		return err == nil && string(text) == "here\nhere\n" && len(testkit.Value(l.operator.Bin(t.Context()))(t).Volumes) == 0
	})
	l.host.stop()
	l.host.start() // it goes on with what it has
	testkit.Must(t, l.operator.StopSession(t.Context(), "lab"))
	testkit.Eventually(t, "it is retired", func() bool {
		return testkit.Value(l.operator.Session(t.Context(), "lab"))(t).State == session.Retired
	})
	testkit.Eventually(t, "the route is void", func() bool { return l.asks(t, "web.localhost") == http.StatusNotFound })
	if urls := testkit.Value(l.operator.Session(t.Context(), "lab"))(t).Parts[0].Pods[0].URLs; len(urls) > 0 {
		t.Errorf("after its end the URLs are %v", urls)
	}
	testkit.Eventually(t, "the host forgets the secret", func() bool { return len(testkit.Value(os.ReadDir(secrets))(t)) == 0 })
	l.staysOut(t, value)
	l.keepsUntil(t, gone, kept, later)
}

// keepsUntil checks the bin of a host after a session: its volumes stay over a restart of the agent until it is time,
// by the host's own clock, or an operator removes one.
func (l *lease) keepsUntil(t *testing.T, gone, kept, later string) {
	t.Helper()
	if l.engineHas(t, gone) || !l.engineHas(t, kept) {
		t.Fatalf("after the session %s is there: %v, and %s: %v", gone, l.engineHas(t, gone), kept, l.engineHas(t, kept))
	}
	var bin operator.Bin
	testkit.Eventually(t, "the bin is listed", func() bool {
		bin = testkit.Value(l.operator.Bin(t.Context()))(t)
		return len(bin.Volumes) == 2
	})
	v := bin.Volumes[0]
	if v.Host != "web-1" || v.Session != "lab" || v.Pod != "lab/shop/web" || v.Volume != "lab-kept" || l.prefix+v.ID != kept || v.Until.Sub(v.Since) != time.Hour {
		t.Errorf("the bin has %+v", v)
	}
	if err := l.operator.DiscardVolume(t.Context(), "web-1", "other"); err == nil || !strings.Contains(err.Error(), "steady session bin lists it") {
		t.Errorf("one that is not in the bin: %v", err)
	}
	l.host.stop()
	l.host.clock.move(61 * clock.Minute)
	l.host.start()
	testkit.Eventually(t, "what is due is gone", func() bool { return !l.engineHas(t, kept) })
	testkit.Eventually(t, "the bin lists the other one", func() bool {
		bin = testkit.Value(l.operator.Bin(t.Context()))(t)
		return len(bin.Volumes) == 1 && l.prefix+bin.Volumes[0].ID == later && l.engineHas(t, later)
	})
	testkit.Must(t, l.operator.DiscardVolume(t.Context(), "web-1", bin.Volumes[0].ID))
	if l.engineHas(t, later) {
		t.Error("it is there after it was discarded")
	}
	testkit.Eventually(t, "the bin is empty", func() bool { return len(testkit.Value(l.operator.Bin(t.Context()))(t).Volumes) == 0 })
}

// volume is the name on the engine of what a container has at a path.
func (l *lease) volume(t *testing.T, c container.InspectResponse, at string) string {
	t.Helper()
	for _, m := range c.Mounts {
		if m.Destination == at && m.Name != "" {
			return m.Name
		}
	}
	t.Fatalf("%s is no volume: %+v", at, c.Mounts)
	return ""
}

func (l *lease) mountpoint(t *testing.T, volume string) string {
	t.Helper()
	return testkit.Value(l.engine.Client().VolumeInspect(t.Context(), volume, client.VolumeInspectOptions{}))(t).Volume.Mountpoint
}

func (l *lease) engineHas(t *testing.T, volume string) bool {
	t.Helper()
	all := testkit.Value(l.engine.Client().VolumeList(t.Context(), client.VolumeListOptions{}))(t)
	for _, v := range all.Items {
		if v.Name == volume {
			return true
		}
	}
	return false
}

// asks the router of the host for a name, and returns the status.
func (l *lease) asks(t *testing.T, name string) int {
	t.Helper()
	req := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.router+"/", nil))(t)
	req.Host = name
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	testkit.Must(t, res.Body.Close())
	return res.StatusCode
}

// staysOut looks for a value in all that the server and the agent wrote, said and logged.
func (l *lease) staysOut(t *testing.T, value string) {
	t.Helper()
	places := map[string][]byte{"a log": l.logged.all()}
	for name, ask := range map[string]func() (any, error){
		"the session":  func() (any, error) { return l.operator.Session(t.Context(), "lab") },
		"the sessions": func() (any, error) { return l.operator.Sessions(t.Context()) },
		"the token":    func() (any, error) { return l.operator.SessionEvents(t.Context(), "lab") },
		"the events":   func() (any, error) { return l.operator.Events(t.Context(), operator.EventQuery{Limit: 100}) },
		"the host":     func() (any, error) { return l.operator.Host(t.Context(), "web-1") },
	} {
		answer, err := ask()
		testkit.Must(t, err)
		places[name] = testkit.Value(json.Marshal(answer))(t)
	}
	for _, dir := range []string{l.dir, l.host.state} {
		testkit.Must(t, filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
			if err == nil && f.Type().IsRegular() {
				places[path] = testkit.Value(os.ReadFile(path))(t)
			}
			return err
		}))
	}
	searched := 0
	for place, text := range places {
		searched += len(text)
		for form, how := range needles(value) {
			if bytes.Contains(text, []byte(form)) {
				t.Errorf("%s holds the secret %s", place, how)
			}
		}
	}
	if searched < 1<<16 || !bytes.Contains(places["the events"], []byte("session/lab/")) {
		t.Errorf("only %d bytes were searched", searched)
	}
	fmt.Fprintln(t.Output(), searched, "bytes in", len(places), "places were searched")
}

// TestWhatASessionIsGivenEndsOnACutOffHost: a host that never reaches its server again ends a session by its own clock,
// its secret and its volumes with it, and later what was kept.
func TestWhatASessionIsGivenEndsOnACutOffHost(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "takes minutes on a real engine: STEADY_NIGHTLY=1")
	l := newLease(t, sessionFleet)
	cut := l.cuts()
	now := time.Now().UTC()
	made := testkit.Value(l.operator.CreateSession(t.Context(), "lab", operator.NewSession{
		Timeslot: session.Timeslot{ProvisionAt: now, Start: now, End: now.Add(time.Hour), CleanupDeadline: now.Add(2 * time.Hour)},
		Parts:    []session.Part{{Name: "shop", Pods: []session.Pod{givenPod()}}},
	}))(t)
	testkit.Eventually(t, "the pod runs", func() bool {
		st := testkit.Value(l.operator.Session(t.Context(), "lab"))(t)
		return st.Parts[0].Pods[0].Phase == string(engine.Converged)
	})
	c := l.running(t)
	gone, kept := l.volume(t, c, "/gone"), l.volume(t, c, "/kept")
	cut()
	l.host.clock.move(121 * clock.Minute)
	secrets := filepath.Join(l.host.state, "session-secrets")
	testkit.Eventually(t, "the host ends the session alone", func() bool {
		return len(l.containers(t)) == 0 && !l.engineHas(t, gone) && len(testkit.Value(os.ReadDir(secrets))(t)) == 0
	})
	if !l.engineHas(t, kept) {
		t.Fatal("what was kept is gone with the session")
	}
	l.host.clock.move(190 * clock.Minute)
	testkit.Eventually(t, "what was kept is gone in its time", func() bool { return !l.engineHas(t, kept) })
	l.staysOut(t, made.Secrets[0].Value)
}

// cuts starts the host again so that it can be cut off from its server, by what is returned, for good.
func (l *lease) cuts() (cut func()) {
	var mu sync.Mutex
	var open []net.Conn
	off := false
	l.host.stop()
	l.host.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		mu.Lock()
		defer mu.Unlock()
		if err == nil && off {
			return nil, errors.Join(errors.New("it is cut off"), c.Close())
		}
		open = append(open, c)
		return c, err
	}
	l.host.start()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		off = true
		for _, c := range open {
			if c != nil {
				_ = c.Close() // it may be closed
			}
		}
	}
}
