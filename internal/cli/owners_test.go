package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/apply"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// ownersServer has a host whose managed layer is of operators and of a session, and notes what
// is removed.
func ownersServer(t *testing.T) (env map[string]string, removed *[]string) {
	t.Helper()
	managed := func(kind, name string, by spec.Owner) operator.Resource {
		return operator.Resource{Kind: kind, Name: name, Layer: event.LayerManaged, Declared: true, Owner: by}
	}
	host := operator.HostResources{Host: "gpu-1", Resources: []operator.Resource{managed("volume", "left", spec.Operators), managed("volume", "new", spec.Operators),
		managed("workspace", "pod", spec.SessionOwner("lab"))}}
	page := operator.Page[operator.HostResource]{Total: 1, Items: []operator.HostResource{{Host: "gpu-1", Resource: host.Resources[2]}}}
	removed = &[]string{}
	mux := http.NewServeMux()
	answer := func(pattern string, value any) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+operator.Prefix+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				*removed = append(*removed, r.PathValue("kind")+"/"+r.PathValue("name"))
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			testkit.Must(t, json.NewEncoder(w).Encode(value))
		})
	}
	answer("GET /status", operator.Status{})
	answer("GET /hosts/gpu-1/resources", host)
	answer("GET /resource-list", page)
	answer("GET /hosts/gpu-1/volume/{name}", operator.ManagedResource{Kind: "volume", Name: "left", Spec: json.RawMessage(`{}`)})
	answer("PUT /hosts/gpu-1/{kind}/{name}", operator.Changed{})
	answer("DELETE /hosts/gpu-1/{kind}/{name}", nil)
	answer("POST /hosts/gpu-1/plan", wire.PlanAnswer{Does: "remove", Fields: []wire.PlanField{}})
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return map[string]string{command.EnvServer: s.URL, command.EnvToken: "none", command.EnvCA: file, "COLUMNS": "200"}, removed
}

// What a session owns --prune leaves alone; the plan says so, and lists name the owner.
func TestPruneKeepsWhatOthersOwn(t *testing.T) {
	env, removed := ownersServer(t)
	run := func(args string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Run(t.Context(), strings.Fields(args), command.Streams{In: strings.NewReader("{kind: volume, name: new, spec: {}}\n"), Out: &out, Err: &errs,
			Getenv: func(name string) string { return env[name] }, Now: time.Now}); code != 0 {
			t.Errorf("steady %s ended with %d: %s%s", args, code, out.String(), errs.String())
		}
		return out.String()
	}
	words := run("plan -f - gpu-1 --prune")
	if !strings.Contains(words, "workspace/pod on gpu-1: keep: it belongs to session lab\n") || !strings.HasSuffix(words, "3 resources: 2 remove, 1 keep\n") {
		t.Errorf("the plan is %s", words)
	}
	if words := run("plan -f - gpu-1"); strings.Contains(words, "pod") {
		t.Errorf("the plan without --prune is %s", words)
	}
	var list []apply.Planned
	testkit.Must(t, json.Unmarshal([]byte(run("plan -f - gpu-1 --prune -o json")), &list))
	if last := list[len(list)-1]; last.Owner != spec.SessionOwner("lab") || last.Does != "keep" || last.Resource != "workspace/pod" || list[0].Owner != spec.Operators {
		t.Errorf("the plan is %+v", list)
	}
	if words := run("apply -f - gpu-1 --prune --yes"); strings.Contains(words, "pod") || len(*removed) != 1 || (*removed)[0] != "volume/left" {
		t.Errorf("%v were removed: %s", *removed, words)
	}
	for _, args := range []string{"host resources gpu-1", "workspace list gpu-1"} {
		if words := run(args); !strings.Contains(words, "managed, session lab") {
			t.Errorf("%s shows %s", args, words)
		}
	}
	if words := run("workspace list gpu-1 -o json"); !strings.Contains(words, `"owner": "session/lab"`) {
		t.Errorf("as JSON %s", words)
	}
}
