package control

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

// refusal gives a refusal of the rules its kind, and leaves other errors as they are.
func refusal(err error) error {
	var decided *server.RefusedError
	var token *access.Error
	var layer *managed.Refusal
	var nodes *drift.Refusal
	switch {
	case errors.As(err, &decided):
		kinds := map[server.RefusalKind]error{server.Forbidden: wire.ErrForbidden, server.Conflict: wire.ErrConflict, server.Unknown: wire.ErrNotFound}
		return &wire.Refusal{Kind: kinds[decided.Kind], Message: decided.Reason}
	case errors.As(err, &token) && token.Unknown:
		return &wire.Refusal{Kind: wire.ErrNotFound, Message: token.Reason}
	case errors.As(err, &token):
		return &wire.Refusal{Kind: wire.ErrConflict, Message: token.Reason}
	case errors.As(err, &layer):
		kind := wire.ErrInvalid
		switch layer.Code {
		case managed.UnknownHost, managed.Missing:
			kind = wire.ErrNotFound
		case managed.NotDelegated, managed.OutOfBounds:
			kind = wire.ErrForbidden
		case managed.Clash, managed.NotOwner, managed.MassRemoval, managed.Full, managed.Superseded:
			kind = wire.ErrConflict
		}
		return &wire.Refusal{Kind: kind, Message: layer.Message, Problems: layer.Problems}
	case errors.As(err, &nodes):
		kind := wire.ErrConflict // a port as well
		switch nodes.Code {
		case drift.CodeUnknown:
			kind = wire.ErrNotFound
		case drift.CodeInvalid:
			kind = wire.ErrInvalid
		case drift.CodeForbidden:
			kind = wire.ErrForbidden
		}
		return &wire.Refusal{Kind: kind, Message: nodes.Message}
	}
	return err
}
