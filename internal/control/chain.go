package control

import (
	"context"
	"encoding/hex"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Chain is how far the running audit has held the hash of each record of the log against the one
// before, since the server began: whoever reads the log does.
type Chain struct {
	First   uint64 `json:"first"`
	Through uint64 `json:"through"` // the last one that was read; below First when none was yet
	Last    uint64 `json:"last"`    // of the log
	// At is when Through was read, Hash its own, in hex.
	At   clock.Instant `json:"at"`
	Hash string        `json:"hash,omitempty"`
	// Broken says where the chain breaks, or why the log is not read.
	Broken string `json:"broken,omitempty"`
}

// Chain says whether the log's chain is whole, as far as the audit has read it.
func (c *Control) Chain(ctx context.Context) (Chain, error) {
	base, err := c.cfg.Store.Base(ctx)
	a := c.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	out := Chain{First: base.Seq + 1, Through: a.seq, Last: max(c.Head().Seq, a.seq), At: a.at, Broken: a.broken}
	if a.at != 0 {
		out.Hash = hex.EncodeToString(a.hash[:])
	}
	return out, err
}

// fail keeps why the log is read no further.
func (a *auditor) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = err.Error()
}
