package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// undrawn are the events by which somebody answers for something that schedules do
// not draw, with the reason.
var undrawn = map[string]string{
	"attention.acknowledged": "the planner reads nothing of the inbox; internal/core/status plays it",
	"managed.requested":      managedReason,
	"host.tuned":             managedReason,
	"host.retried":           "the host begins anew with what it gave up; the planner reads what the host reports of it",
	"operator.token_added":   "who may ask for a verb is settled before it is asked for",
	"stream.opened":          managedReason,
	"release.verify_failed":  "what does not verify never reaches the planner; only its alert is logged",
	"operator.token_revoked": "who may ask for a verb is settled before it is asked for",
}

const managedReason = "of the managed layer the planner reads which entries sessions set and remove, and those are drawn; internal/core/managed and the worlds of internal/core/replace play it"

const nodesReason = "none: the planner reads nothing of nodes; internal/driftsim plays what operators do with them"

// TestEveryVerbIsDrawn plays schedules until operators did everything that the engine
// lets them do: each event that names an actor, each signed action, and what these
// have carried out. A verb that the engine gains fails it until schedules draw it.
func TestEveryVerbIsDrawn(t *testing.T) {
	left := map[string]bool{"wave.forced by signature": true, "wave.forced before its rollout": true, "break_glass.used before its rollout": true,
		"wave.forced over failing evidence": true, "wave.forced as the last": true, "safe_mode.ended before its time": true}
	for _, a := range fleet.OverrideActions {
		left["override "+string(a)] = true
	}
	for _, name := range answered(t) {
		left[name] = undrawn[name] == "" && !event.IsOfNodes(name)
	}
	maps.DeleteFunc(left, func(_ string, there bool) bool { return !there })
	const most = 600
	for seed := uint64(1); len(left) > 0; seed++ {
		if seed > most {
			t.Fatalf("no operator of %d schedules did %v: draw it", most, slices.Sorted(maps.Keys(left)))
		}
		w := build(Config{Seed: seed, Trust: Never, Model: Never})
		w.play()
		for _, ev := range w.log.events {
			for _, name := range done(ev) {
				delete(left, name)
			}
		}
		if len(left) == 0 {
			t.Logf("every verb within %d schedules", seed)
		}
	}
}

// answered lists the types of events that name who answers for them.
func answered(t *testing.T) (names []string) {
	for _, name := range event.Types() {
		ev := testkit.Value(event.DecodeBody(name, []byte("{}")))(t)
		if _, has := reflect.TypeOf(ev).FieldByName("Actor"); has {
			names = append(names, name)
		}
	}
	return names
}

// done names what an event says that operators did.
func done(ev event.Event) (names []string) {
	by := ""
	if f := reflect.ValueOf(ev).FieldByName("Actor"); f.IsValid() {
		by = f.String()
	}
	if by == "" {
		return nil
	}
	name := ev.EventType()
	names = []string{name}
	if strings.HasPrefix(by, "with override ") {
		names = append(names, name+" before its rollout")
	}
	switch ev := ev.(type) {
	case event.OverrideAccepted:
		names = append(names, "override "+string(ev.Action))
	case event.WaveForced:
		if ev.Override != "" {
			names = append(names, name+" by signature")
		}
		if len(ev.Failing) > 0 {
			names = append(names, name+" over failing evidence")
		}
	case event.SafeModeEnded:
		if len(ev.Hosts) > 0 {
			names = append(names, name+" before its time")
		}
	case event.RolloutMoved:
		if strings.HasPrefix(ev.Reason, "promoted by hand") {
			names = append(names, "wave.forced as the last")
		}
	}
	return names
}

// sessionsReason is why other schedules draw nothing of sessions.
const sessionsReason = "none: schedules with Labs draw what is asked of sessions, on the real controller"

// asked says of each request of the operators' API that changes something what a
// schedule draws of it: an event or a signed action, or the reason why nothing.
var asked = map[string]string{
	"operate-rollout":      "rollout.paused",
	"promote-wave":         "wave.forced",
	"retry-rollout":        "rollout.retried",
	"add-quarantine":       "quarantine.added",
	"clear-quarantine":     "quarantine.cleared",
	"freeze-host":          "host.frozen",
	"unfreeze-host":        "host.unfrozen",
	"push-override":        "override.accepted",
	"push-release":         "release.accepted",
	"list-missing-content": "none: archives of store paths are no decision of the server",
	"send-content":         "none: archives of store paths are no decision of the server",
	"hook-release":         "release.accepted",
	"reconcile":            "none: it has the planner look, which decides nothing new (S27)",
	"push-roots":           "none: roots are not drawn yet",
	"revoke-host":          "host.revoked",
	"decommission-host":    "host.decommissioned",
	"end-safe-mode":        "safe_mode.ended",
	"create-token":         "none: " + undrawn["operator.token_revoked"],
	"revoke-token":         "none: " + undrawn["operator.token_revoked"],
	"create-login-link":    "none: " + undrawn["operator.token_revoked"],
	"log-in":               "none: " + undrawn["operator.token_revoked"],
	"log-out":              "none: " + undrawn["operator.token_revoked"],
	"set-topics":           "none: it changes what a viewer is sent, and nothing of the fleet",
	"create-forecast":      "none: it plays a copy of the state, and changes nothing of the fleet",
	"operate-node":         nodesReason,
	"resume-node":          nodesReason,
	"push-node":            nodesReason,
	"push-object":          nodesReason,
	"retire-node":          nodesReason,
	"place-node":           nodesReason,
	"adopt-objects":        nodesReason,
	"set-object":           nodesReason,
	"preview-object":       nodesReason,
	"remove-object":        nodesReason,
	"restore-object":       nodesReason,
	"resolve-drift":        nodesReason,
	"resolve-many":         nodesReason,
	"undo-resolution":      nodesReason,
	"ignore-drift":         nodesReason,
	"unignore-drift":       nodesReason,
	"convert-yaml":         "none: it reads and writes a text, and changes nothing of the fleet",
	"foresee-release":      "none: it tells what a push would do, and changes nothing of the fleet",
	"create-rerun":         "none: it plays a copy of the log, and changes nothing of the fleet",
	"put-template":         sessionsReason,
	"remove-template":      sessionsReason,
	"set-quota":            sessionsReason,
	"create-session":       sessionsReason,
	"preview-session":      sessionsReason,
	"operate-session":      sessionsReason,
	"extend-session":       sessionsReason,
	"session-token":        sessionsReason,
	"operate-part":         sessionsReason,
	"retry-phase":          sessionsReason,
	"acknowledge":          sessionsReason,
	"discard-kept-volume":  sessionsReason,
	"receive-event":        sessionsReason,
	"set-resource":         "none: " + managedReason,
	"remove-resource":      "none: " + managedReason,
	"ask-resource":         "none: " + managedReason,
	"tune-host":            "none: " + managedReason,
	"retry-host":           "none: " + managedReason,
	"plan-resource":        "none: " + managedReason,
	"workspace-exec":       "none: " + managedReason,
	"host-prune":           "none: " + managedReason,
}

// TestEveryRequestOfOperatorsIsDrawn holds the table of requests against the API, and
// the planner's verbs against what schedules call.
func TestEveryRequestOfOperatorsIsDrawn(t *testing.T) {
	drawn := answered(t)
	for id, as := range asked { // order-free: each by itself
		if !strings.HasPrefix(as, "none: ") && (!slices.Contains(drawn, as) || undrawn[as] != "") {
			t.Errorf("request %s is said to be drawn as %s, which is not drawn", id, as)
		}
	}
	ids := requests(t)
	for _, id := range ids {
		if asked[id] == "" {
			t.Errorf("nobody says what schedules draw of request %s", id)
		}
	}
	for id := range asked { // order-free: each by itself
		if !slices.Contains(ids, id) {
			t.Errorf("the API has no request %s that changes something", id)
		}
	}
	called := calls(t)
	for _, verb := range plannerVerbs(t) {
		if !called[verb] {
			t.Errorf("no schedule calls plan.%s", verb)
		}
	}
}

// requests lists the requests of the API that change something.
func requests(t *testing.T) (ids []string) {
	each(t, "../api/operations", func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch words(call.Fun) {
		case "add", "do", "register":
			if id, method := request(t, call.Args[1]); id != "" && method != "MethodGet" {
				ids = append(ids, id)
			}
		case "verb":
			ids = append(ids, words(call.Args[1]))
		case "raw":
			if words(call.Args[1]) != "MethodGet" {
				ids = append(ids, words(call.Args[0]))
			}
		}
		return true
	})
	return ids
}

// request reads how one request is described: in full, or by a helper whose name says
// its method or whose second argument does.
func request(t *testing.T, made ast.Expr) (id, method string) {
	switch made := made.(type) {
	case *ast.Ident: // in what registers those that others describe
		return "", ""
	case *ast.CompositeLit:
		for _, e := range made.Elts {
			switch kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name {
			case "OperationID":
				id = words(kv.Value)
			case "Method":
				method = words(kv.Value)
			}
		}
	case *ast.CallExpr:
		if _, named := made.Args[0].(*ast.BasicLit); !named { // of what adds all verbs
			return "", ""
		}
		id, method = words(made.Args[0]), words(made.Args[1])
		if by, known := map[string]string{"post": "MethodPost", "big": "MethodPost", "get": "MethodGet"}[words(made.Fun)]; known {
			method = by
		}
	}
	if id == "" || !strings.HasPrefix(method, "Method") {
		t.Errorf("nobody can tell what request is added by %T: %q %q", made, id, method)
	}
	return id, method
}

// words is what an expression says by itself.
func words(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strings.Trim(e.Value, "\"")
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// each looks at the source of a folder, tests aside.
func each(t *testing.T, folder string, look func(ast.Node) bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no source (%v)", folder, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := testkit.Value(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(f, look)
	}
}

// plannerVerbs lists what package plan does for an actor.
func plannerVerbs(t *testing.T) (names []string) {
	each(t, "../core/plan", func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			for _, p := range n.Type.Params.List {
				actor := slices.ContainsFunc(p.Names, func(n *ast.Ident) bool { return n.Name == "actor" })
				if actor && n.Recv == nil && n.Name.IsExported() && n.Type.Results.NumFields() == 2 {
					names = append(names, n.Name.Name)
				}
			}
		case *ast.ValueSpec:
			if n.Type != nil && words(n.Type) == "Verb" && !slices.Contains([]string{"Promoting", "Retrying", "RollingBack"}, n.Names[0].Name) { // which are functions of their own
				names = append(names, n.Names[0].Name)
			}
		}
		return true
	})
	return names
}

// calls lists what schedules use of package plan.
func calls(t *testing.T) map[string]bool {
	out := map[string]bool{}
	each(t, ".", func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && words(sel.X) == "plan" {
			out[sel.Sel.Name] = true
		}
		return true
	})
	return out
}
