package event

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Events that a host reports. They form one chain per host and incarnation.

// HostStepped says that the host machine took an input on the host. The server
// steps its mirror with the same input at the same instant.
type HostStepped struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	Input    string        `json:"input"`
	// Data is the input without its kind, as host.EncodeInput wrote it.
	Data json.RawMessage `json:"data"`
	From host.Phase      `json:"from"`
	To   host.Phase      `json:"to"`
	// Cause and Detail repeat the machine's when To is failed, so that the log
	// reads well on its own.
	Cause  host.Cause `json:"cause,omitempty"`
	Detail string     `json:"detail,omitempty"`
	// Unconfirmed marks the first step after a start at which the server did not answer
	// whether it knows a newer state of the host: it resumed all the same.
	Unconfirmed bool `json:"unconfirmed,omitempty"`

	in host.Input // that Data stands for, where it is known
}

// HostInput returns the input that the machine took.
func (e *HostStepped) HostInput() (host.Input, error) {
	if e.in != nil {
		return e.in, nil
	}
	return host.DecodeInput(e.Input, e.Data)
}

// NewHostStepped reports one step of the machine.
func NewHostStepped(before, after *host.State, in host.Input) (HostStepped, error) {
	data, err := host.EncodeInput(in)
	if err != nil {
		return HostStepped{}, fmt.Errorf("encode input %s: %w", in.Kind(), err)
	}
	e := HostStepped{
		Rollout: after.Rollout, Manifest: after.Manifest,
		Input: in.Kind(), Data: data, From: before.Phase, To: after.Phase, in: in,
	}
	if after.Phase == host.Failed {
		e.Cause, e.Detail = after.Cause, after.Detail
	}
	return e, nil
}

// GrantDeclined says that the host will not take a grant, and why; Code is one
// of the host package's Decline constants.
type GrantDeclined struct {
	Grant  string `json:"grant"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// TrustRefused says that the host refused what the server gave it. Check is
// ManifestMissing, ManifestVerifyFailed, ManifestMismatch or Stale.
type TrustRefused struct {
	Check   string `json:"check"`
	Detail  string `json:"detail"`
	Rollout string `json:"rollout"`
}

// BundleQuarantined says that the host refuses a bundle from now on.
type BundleQuarantined struct {
	Rollout string        `json:"rollout"`
	Digest  digest.Digest `json:"digest"`
	Reason  string        `json:"reason"`
}

// FileKept says that a file which the agent replaced or removed differed from
// what it had written, and where the copy is.
type FileKept struct {
	Path   string        `json:"path"`
	Digest digest.Digest `json:"digest"`
	KeptAs string        `json:"keptAs"`
}

// Layers that a resource is declared in.
const (
	LayerBundle  = "bundle"
	LayerManaged = "managed"
)

// ResourceReported is the status of one resource on the host, of whatever kind. It
// is reported when it changes, drift and repair included; Removed is the last one.
type ResourceReported struct {
	Resource string `json:"resource"` // kind/name
	// Phase is the framework's; empty for what it does not run, such as a leftover
	// on the engine. State is a spec.State: the same as the kind names it.
	Phase   engine.Phase `json:"phase,omitempty"`
	State   string       `json:"state"`
	Reason  engine.Code  `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	// Attempts counts those of the present try that failed. NextAttempt is when the
	// host tries again by itself, on its own clock; 0: it does not, or at once.
	Attempts    int           `json:"attempts,omitempty"`
	NextAttempt clock.Instant `json:"nextAttempt,omitempty"`
	Layer       string        `json:"layer"`
	// Version is that of the managed layer which last set the resource, or asked
	// for something of it, when the state came about; 0: none did. Of Removed it
	// is that of what was removed.
	Version uint64 `json:"version,omitempty"`
	// BrokenBefore says that the resource did not work when the host claimed its bundle, which
	// does not change it, and has not worked since: it says nothing of that bundle.
	BrokenBefore bool `json:"brokenBefore,omitempty"`
	// Differences are the fields that are not as declared, at most
	// MaxDifferences.
	Differences []diff.Difference `json:"differences,omitempty"`
}

// MaxDifferences bounds what one report lists.
const MaxDifferences = 32

// WorkloadsRemoved says what came of a signed removal of the host: OK once all that its
// workloads ask for is done, else Detail says what cannot be done.
type WorkloadsRemoved struct {
	Override  digest.Digest   `json:"override"`
	Workloads fleet.Workloads `json:"workloads"`
	OK        bool            `json:"ok"`
	Detail    string          `json:"detail,omitempty"`
}

// EventType names of the host's events.
func (HostStepped) EventType() string       { return "host.stepped" }
func (GrantDeclined) EventType() string     { return "host.grant_declined" }
func (TrustRefused) EventType() string      { return "host.trust_refused" }
func (BundleQuarantined) EventType() string { return "host.bundle_quarantined" }
func (FileKept) EventType() string          { return "host.file_kept" }
func (ResourceReported) EventType() string  { return "host.resource_reported" }
func (WorkloadsRemoved) EventType() string  { return "host.workloads_removed" }

// RepairNeeded says that the host found drift of what it runs, that undoing it
// would stop or replace something, and that it waits for a grant. It replaces
// what the host said before; at most host.MaxRepairNames resources are named.
type RepairNeeded struct{ host.RepairNeed }

// RepairOver says that nothing waits any more. Grant is the claimed grant that
// this closes: nothing under it runs any more. It is empty when none was claimed:
// the drift is gone by itself, or the host went on in a rollout.
type RepairOver struct {
	Grant  string `json:"grant,omitempty"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// EventType names of repairs.
func (RepairNeeded) EventType() string { return "host.repair_needed" }
func (RepairOver) EventType() string   { return "host.repair_over" }

func init() {
	add(HostStepped{}, reported, about(rollout, manifest))
	add(GrantDeclined{}, reported) // the end of the grant, which follows, names the rollout
	add(TrustRefused{}, reported, about(rollout))
	add(BundleQuarantined{}, reported, about(rollout, refused))
	add(FileKept{}, reported)
	add(ResourceReported{}, reported)
	add(WorkloadsRemoved{}, reported, about(signed))
	add(RepairNeeded{}, reported, about(manifest, bundle))
	add(RepairOver{}, reported)
}
