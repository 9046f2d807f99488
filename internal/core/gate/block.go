package gate

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Block is one rule's answer why something may not happen yet. Only this
// package makes one, in the four steps that begin with block: a block that leaves
// something unsaid does not compile.
type Block struct {
	Code Code `json:"code"`
	// Message says what the rule found, for people.
	Message string `json:"message"`
	// WaitsFor is the event or state that would clear it.
	WaitsFor string `json:"waitsFor"`
	// ClearedBy is who can bring that about.
	ClearedBy string `json:"clearedBy"`
	// Remedies are the commands that ClearedBy names, or stands for; empty where time or a
	// host alone clears it.
	Remedies []Remedy `json:"remedies,omitempty"`
	// Earliest is when time can clear it, at the soonest: an event may do so
	// before. Zero when only an event can tell.
	Earliest clock.Instant `json:"earliest"`
	// Detail refines Code where a reader must tell cases apart.
	Detail string `json:"detail,omitempty"`
}

// never is the Earliest of a block that only an event can clear.
const never clock.Instant = 0

type (
	blockStart struct{ b Block }
	blockCause struct{ b Block }
	blockWait  struct{ b Block }
)

// block begins a Block of a gate; detail may be empty.
func block(code Code, detail string) blockStart { return blockStart{Block{Code: code, Detail: detail}} }

// because says what the rule found.
func (h blockStart) because(format string, a ...any) blockCause {
	return h.says(fmt.Sprintf(format, a...))
}

// says is because in words as they are, for what every tick of the planner asks, and
// why of each host.
func (h blockStart) says(words string) blockCause {
	h.b.Message = words
	return blockCause(h)
}

// until says what clears the block, and when time can at the soonest.
func (h blockCause) until(what string, earliest clock.Instant) blockWait {
	h.b.WaitsFor, h.b.Earliest = what, earliest
	return blockWait(h)
}

// by says who can bring that about, and with what.
func (h blockWait) by(who string, remedies ...Remedy) *Block {
	h.b.ClearedBy, h.b.Remedies = who, remedies
	return &h.b
}

// wordless stands for any block where nobody reads it.
var wordless = new(Block)

// unexplained is the answer of a gate to who does not show it.
func unexplained(closed bool) *Block {
	if !closed {
		return nil
	}
	return wordless
}
