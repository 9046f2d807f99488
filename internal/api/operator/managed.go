package operator

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// SetResource sets a resource of a host's managed layer. Spec is the resource of
// its kind as JSON; the name may be left out.
type SetResource struct {
	Spec   json.RawMessage `json:"spec" doc:"The resource of its kind"`
	Reason string          `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
	// NotAfter ends the resource on the host; zero is no end.
	NotAfter clock.Instant `json:"notAfter,omitempty" doc:"When the host ends it by itself, in milliseconds since 1970"`
	// Envelope is the entry as an operator signed it, for hosts that require it.
	Envelope json.RawMessage `json:"envelope,omitempty" doc:"The entry as an operator signed it"`
	Version  uint64          `json:"version,omitempty" doc:"Of the resource that the change was made on, as it was read: refused if it is another one now; 0 is whichever there is"`
	Create   bool            `json:"create,omitempty" doc:"Refuse it if it is there already"`
}

// ManagedResource is one resource of a host's managed layer.
type ManagedResource struct {
	Kind     string          `json:"kind"`
	Name     string          `json:"name"`
	Spec     json.RawMessage `json:"spec"`
	NotAfter clock.Instant   `json:"notAfter,omitempty"`
	Version  uint64          `json:"version,omitempty"` // another one after each change
	Signed   bool            `json:"signed"`
	Owner    spec.Owner      `json:"owner,omitempty"` // that alone changes it; empty is the operators
	Verb     string          `json:"verb,omitempty"`  // that was asked for last
	Nonce    string          `json:"nonce,omitempty"`
	SetAt    clock.Instant   `json:"setAt"`
	Actor    string          `json:"actor"`
	Reason   string          `json:"reason,omitempty"`
}

// Changed says whether a request changed anything; Version is that of the host's
// managed layer since.
type Changed struct {
	Changed bool   `json:"changed"`
	Version uint64 `json:"version"`
	// Resource is the version that set the resource last or asked for something of
	// it, which reports of the host repeat; 0 if it is gone again.
	Resource uint64 `json:"resource"`
	Nonce    string `json:"nonce,omitempty"` // of a verb
}

// Resource is one resource of a host, of its bundle or its managed layer, and its
// status as the host last reported it. Times are on the host's clock.
type Resource struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Layer string `json:"layer"` // bundle or managed
	// Owner is whose entry of the managed layer it is, as KIND/NAME, and alone changes or
	// removes it; empty is the operators.
	Owner spec.Owner `json:"owner,omitempty"`
	// State is Phase in the words of the kind; both are empty when the host has not
	// reported any.
	State       string        `json:"state,omitempty"`
	Phase       engine.Phase  `json:"phase,omitempty"`
	Reason      engine.Code   `json:"reason,omitempty"`
	Message     string        `json:"message,omitempty"`
	Since       clock.Instant `json:"since,omitempty"`
	Attempts    int           `json:"attempts,omitempty"`
	NextAttempt clock.Instant `json:"nextAttempt,omitempty"`
	// Version is that of the managed layer which had set the resource, or asked for
	// something of it, when the state came about; 0 if none had.
	Version uint64 `json:"version,omitempty"`
	// Declared says that the bundle which the host runs has it, or the managed layer;
	// Next, that only the bundle does which the host is to run next. One that is
	// neither is left over, of an earlier bundle or of one that failed.
	Declared    bool              `json:"declared"`
	Next        bool              `json:"next,omitempty"`
	Differences []diff.Difference `json:"differences,omitempty"`
	// Verbs list what operators can have done with it now, and why not the rest; of the resources of
	// one host alone.
	Verbs []managed.ResourceVerb `json:"verbs,omitempty"`
}

// HostResources are all resources of one host.
type HostResources struct {
	Host    string `json:"host"`
	Version uint64 `json:"version"` // of the managed layer
	// Delegation is what the host leaves to the server; nil is nothing.
	Delegation *fleet.Delegation `json:"delegation,omitempty"`
	Settings   HostSettings      `json:"settings"`
	Resources  []Resource        `json:"resources"` // by kind and name
	// Dropped counts reports of more resources than the server keeps.
	Dropped int `json:"dropped,omitempty"`
}

// HostSettings are what was tuned of a host; zero and nil are the default.
type HostSettings fleet.Settings

// SettingsPatch changes what is set in it.
type SettingsPatch struct {
	HeartbeatInterval *clock.Duration `json:"heartbeatInterval,omitempty" doc:"Milliseconds, 5 s to 10 min; 0 is the default"`
	ResyncInterval    *clock.Duration `json:"resyncInterval,omitempty" doc:"Milliseconds, 1 s to 1 h; 0 is the default"`
	Enabled           *bool           `json:"enabled,omitempty" doc:"false stops the host's workspaces"`
	Builds            *int            `json:"builds,omitempty" doc:"At a time; 0 is the default"`
	Pulls             *int            `json:"pulls,omitempty" doc:"At a time; 0 is the default"`
	Starts            *int            `json:"starts,omitempty" doc:"At a time; 0 is the default"`
	HostMetrics       *bool           `json:"hostMetrics,omitempty"`
	GPUMetrics        *bool           `json:"gpuMetrics,omitempty"`
	WorkspaceMetrics  *bool           `json:"workspaceMetrics,omitempty"`
	Reason            string          `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
}

// Edit applies the patch.
func (p *SettingsPatch) Edit(s *fleet.Settings) {
	set(&s.HeartbeatInterval, p.HeartbeatInterval)
	set(&s.ResyncInterval, p.ResyncInterval)
	set(&s.Pools.Builds, p.Builds)
	set(&s.Pools.Pulls, p.Pulls)
	set(&s.Pools.Starts, p.Starts)
	for to, from := range map[**bool]*bool{&s.Enabled: p.Enabled, &s.Metrics.Host: p.HostMetrics,
		&s.Metrics.GPU: p.GPUMetrics, &s.Metrics.Workspaces: p.WorkspaceMetrics} {
		if from != nil {
			*to = from
		}
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// RetryRequest has a host begin anew with a resource that it gave up, or with all
// where none is named.
type RetryRequest struct {
	Resource string `json:"resource,omitempty" maxLength:"512" doc:"KIND/NAME; all when left out"`
	Reason   string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
}

// HostMetrics is what a host last said of itself.
type HostMetrics struct {
	Host string `json:"host"`
	// At is when, on the server's clock; 0: not since the server started.
	At           clock.Instant `json:"at"`
	AgentVersion string        `json:"agentVersion,omitempty"`
	Uptime       int64         `json:"uptime,omitempty"` // seconds
	Runtimes     []string      `json:"runtimes,omitempty"`
	Engine       *wire.Engine  `json:"engine,omitempty"`
	Capabilities []string      `json:"capabilities,omitempty"`
	// Metrics are as the agent's collector wrote them.
	Metrics json.RawMessage `json:"metrics,omitempty"`
	// History is how busy the host was in each minute of the last hour, in order, since the server
	// started; where the host was not heard of is one without numbers.
	History []Load `json:"history,omitempty"`
}

// Load is how busy a host was in a minute, per mille of all of its CPUs and of its memory; nil is
// not measured.
type Load struct {
	At     clock.Instant `json:"at"`
	CPU    *int16        `json:"cpu"`
	Memory *int16        `json:"memory"`
}

// PlanRequest asks what setting a resource would do, or removing it when Spec is
// empty.
type PlanRequest struct {
	Kind string          `json:"kind" enum:"image,network,route,snapshot,volume,workspace"`
	Name string          `json:"name" maxLength:"63"`
	Spec json.RawMessage `json:"spec,omitempty" doc:"The resource of its kind; without it, what removing does"`
}

// LogQuery picks lines of a log.
type LogQuery struct {
	Follow bool
	Tail   int           // last lines; 0: all
	Since  clock.Instant // 0: from the start
}

// OutputQuery picks lines of an image's output.
type OutputQuery struct {
	Follow bool
	After  int64 // only lines with a higher number; OutputEnd: none
}

// OutputEnd is after every line.
const OutputEnd = 1<<53 - 1

// ExecRequest is a command in a workspace.
type ExecRequest struct {
	Argv    []string
	Stdin   bool
	TTY     bool
	Rows    int
	Cols    int
	User    string
	WorkDir string
}

// Conversion is a document as a person edits it, and as a program reads it. Of a request one of the
// two is set.
type Conversion struct {
	YAML  string          `json:"yaml,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	// Config says that it is what nodes have, of which every value is kept: null, numbers as they
	// are written, and tags as objects of one member.
	Config bool `json:"config,omitempty"`
}
