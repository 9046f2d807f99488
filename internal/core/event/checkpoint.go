package event

import "github.com/steadyfleet/steady/internal/core/digest"

// LogCheckpoint says what the log up to a record comes to, so that the records up to there
// can be removed: State is the document with the folded state, in an encoding called
// Format, Audit that with the facts that the audit goes on from. Through, Term and Hash are
// those of the record.
type LogCheckpoint struct {
	Through uint64        `json:"through"`
	Term    uint64        `json:"term"`
	Hash    []byte        `json:"hash"`
	Format  string        `json:"format"`
	State   digest.Digest `json:"state"`
	Audit   digest.Digest `json:"audit"`
}

// EventType name of checkpoints.
func (LogCheckpoint) EventType() string { return "log.checkpoint" }

// Checkpoints is what every LogCheckpoint is about.
var Checkpoints = Subject{Kind: KindLog, Name: "checkpoint"}

func init() {
	add(LogCheckpoint{}, about(member{Checkpoints.Kind, func(*names) string { return Checkpoints.Name }}), notice(info, "checkpoint of the log", "through"))
}
