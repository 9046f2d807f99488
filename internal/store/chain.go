package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/core/event"
)

// chainDomain separates these hashes from all others and versions the layout.
const chainDomain = "steady/log/v2\n"

// Hash returns the hash of the record that follows one with hash prev. It is
// the SHA-256 of, in this order, integers as 8 bytes big-endian:
//
//	"steady/log/v2\n"
//	prev            32 bytes, zero for the first record
//	seq
//	term
//	at              two's complement
//	len(type), type
//	len(subject kind), subject kind
//	len(subject name), subject name
//	incarnation
//	host_seq
//	len(body), body
//
// Every variable part carries its length, so that no two records share an
// encoding. The layout is for ever; another one needs another domain.
func Hash(prev [32]byte, seq, term uint64, e event.Entry) [32]byte {
	_, h := appendHash(nil, prev, seq, term, e)
	return h
}

func appendHash(buf []byte, prev [32]byte, seq, term uint64, e event.Entry) ([]byte, [32]byte) {
	buf = append(buf[:0], chainDomain...)
	buf = append(buf, prev[:]...)
	buf = binary.BigEndian.AppendUint64(buf, seq)
	buf = binary.BigEndian.AppendUint64(buf, term)
	buf = binary.BigEndian.AppendUint64(buf, uint64(e.At))
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(e.Type)))
	buf = append(buf, e.Type...)
	for _, s := range [...]string{e.Subject.Kind, e.Subject.Name} {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	buf = binary.BigEndian.AppendUint64(buf, e.Incarnation)
	buf = binary.BigEndian.AppendUint64(buf, e.HostSeq)
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(e.Body)))
	buf = append(buf, e.Body...)
	return buf, sha256.Sum256(buf)
}

// Chain returns the records that entries become behind from, under term. The
// bodies are shared, not copied.
func Chain(from Head, term uint64, entries []event.Entry) []event.Record {
	records := make([]event.Record, len(entries))
	var buf []byte
	prev, seq := from.Hash, from.Seq
	for i, e := range entries {
		seq++
		buf, prev = appendHash(buf, prev, seq, term, e)
		records[i] = event.Record{Entry: e, Seq: seq, Term: term, Hash: prev}
	}
	return records
}

// Verify walks records from the head that precedes them and returns the head
// they lead to, or a *ChainError that names the first bad sequence and the head
// before it. Sequences must be gapless, terms must not fall (S31), and every
// hash must follow from the one before.
func Verify(from Head, records []event.Record) (Head, error) {
	var buf []byte
	for i := range records {
		r := &records[i]
		want := from.Seq + 1
		if r.Seq != want {
			return from, &ChainError{Seq: want, Reason: fmt.Sprintf("found sequence %d", r.Seq)}
		}
		if r.Term < from.Term {
			return from, &ChainError{Seq: want, Reason: fmt.Sprintf("term %d after term %d", r.Term, from.Term)}
		}
		var h [32]byte
		buf, h = appendHash(buf, from.Hash, r.Seq, r.Term, r.Entry)
		if h != r.Hash {
			return from, &ChainError{Seq: want, Reason: "its hash does not follow from the record before"}
		}
		from = Head{Seq: r.Seq, Term: r.Term, Hash: h}
	}
	return from, nil
}

// Replay reads the log behind from, verifies it and hands it on page by page,
// up to the end that it finds. It returns the head of the last page that was
// accepted. fn must not keep the slice.
func Replay(ctx context.Context, log Log, from Head, fn func([]event.Record) error) (Head, error) {
	const page = 1000
	for {
		records, err := log.Read(ctx, from.Seq, page)
		if err != nil || len(records) == 0 {
			return from, err
		}
		next, err := Verify(from, records)
		if err != nil {
			return from, err
		}
		if err := fn(records); err != nil {
			return from, err
		}
		from = next
	}
}

// Check returns ErrInvalid if a batch breaks the bounds of the contract.
func Check(entries []event.Entry) error {
	if len(entries) > MaxBatch {
		return fmt.Errorf("%w: a batch of %d entries; at most %d", ErrInvalid, len(entries), MaxBatch)
	}
	for i := range entries {
		if err := checkEntry(&entries[i]); err != nil {
			return fmt.Errorf("%w: entry %d of the batch: %w", ErrInvalid, i, err)
		}
	}
	return nil
}

func checkEntry(e *event.Entry) error {
	if e.Type == "" {
		return fmt.Errorf("it has no type")
	}
	if err := checkName("type", e.Type); err != nil {
		return err
	}
	if err := errors.Join(checkName("subject's kind", e.Subject.Kind), checkName("subject's name", e.Subject.Name)); err != nil {
		return err
	}
	if (e.Subject.Kind == "") != (e.Subject.Name == "") {
		return fmt.Errorf("its subject has kind %q and name %q; both or none", e.Subject.Kind, e.Subject.Name)
	}
	if e.HostSeq > 0 && e.Host() == "" {
		return fmt.Errorf("it has host sequence %d, but its subject %q is not a host", e.HostSeq, e.Subject)
	}
	if len(e.Body) == 0 {
		return fmt.Errorf("it has no body")
	}
	if len(e.Body) > MaxBody {
		return fmt.Errorf("its body has %d bytes; at most %d", len(e.Body), MaxBody)
	}
	return nil
}

// checkName refuses what an engine's text column might not give back unchanged.
func checkName(what, s string) error {
	if len(s) > MaxName {
		return fmt.Errorf("its %s has %d bytes; at most %d", what, len(s), MaxName)
	}
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return fmt.Errorf("its %s %q is not text", what, s)
	}
	return nil
}

// CheckName returns ErrInvalid unless s is 1 to MaxName bytes of text without
// NUL; what names it in the error.
func CheckName(what, s string) error {
	if s == "" {
		return fmt.Errorf("%w: the %s is empty", ErrInvalid, what)
	}
	if err := checkName(what, s); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// CheckLimit returns ErrInvalid unless limit is 1 to MaxRead.
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxRead {
		return fmt.Errorf("%w: limit %d; from 1 to %d", ErrInvalid, limit, MaxRead)
	}
	return nil
}
