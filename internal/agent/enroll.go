package agent

import (
	"context"
	"log/slog"
)

// EnrollConfig is what a host needs to get its identity.
type EnrollConfig struct {
	// StateDir is the agent's state folder; it is created.
	StateDir string
	// Server is the base URL, kept for Run.
	Server string
	// Token is the single-use enrolment token's envelope.
	Token []byte
	// Root is the fleet's trusted root envelope. Empty fetches it from the
	// server and checks it against the digest that the token names.
	Root []byte
	// ServerCA holds PEM certificates that the server's own must chain to.
	ServerCA []byte
	Clock    Clock
	Log      *slog.Logger
	Dial     DialFunc
}

// Enrolled is the identity that a host got.
type Enrolled struct {
	Fleet       string `json:"fleet"`
	Host        string `json:"host"`
	Incarnation uint64 `json:"incarnation"`
}

// Enroll trades a token for an identity and writes it to the state folder. It
// may be repeated with the same token and folder until it succeeds: the keys
// are made once. It refuses a folder that holds an identity already.
func Enroll(ctx context.Context, cfg EnrollConfig) (Enrolled, error) {
	panic("filled in by the next commit")
}
