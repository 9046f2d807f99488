package embedded

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"

	"github.com/steadyfleet/steady/internal/core/event"
)

// blockSize is about the most bytes of a block: what has many events has many rows.
const blockSize = 4096

// block is some of the sequences of the events about a subject: the first, and the
// distance from one to the next as varints.
type block struct {
	subject event.Subject
	first   uint64
	last    uint64
	rest    []byte
}

func (b *block) add(seq uint64) {
	b.rest = binary.AppendUvarint(b.rest, seq-b.last)
	b.last = seq
}

var errDamaged = errors.New("the index of the log is damaged")

// sequences returns all of them, in order.
func (b *block) sequences() ([]uint64, error) {
	out, seq := []uint64{b.first}, b.first
	for rest := b.rest; len(rest) > 0; {
		d, n := binary.Uvarint(rest)
		if n <= 0 || d == 0 {
			return nil, errDamaged
		}
		seq, rest = seq+d, rest[n:]
		out = append(out, seq)
	}
	return out, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the block's part of the checksum over the whole table, which is a sum so that
// rows can be added to it in any order.
func (b *block) sum() uint64 {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], b.first)
	c := crc32.Update(crc32.Checksum([]byte(b.subject.Kind), castagnoli), castagnoli, []byte{0})
	c = crc32.Update(c, castagnoli, []byte(b.subject.Name))
	c = crc32.Update(crc32.Update(c, castagnoli, n[:]), castagnoli, b.rest)
	return uint64(c)
}

// postings are the newest sequences of every subject, in memory: by kind and name,
// since names alone are hashed faster. The zero value is empty.
type postings struct {
	byKind map[string]map[string]*posting
	spare  []posting // made many at a time: a fleet's first events are each of another host
}

type posting struct {
	full   []*block
	newest block
	few    [32]byte // where the newest block's rest begins: most subjects need no more
}

func (p *postings) add(seq uint64, e *event.Entry) {
	var buf [4]event.Subject
	for _, s := range event.AppendAbout(buf[:0], e) {
		switch at := p.byKind[s.Kind][s.Name]; {
		case at == nil:
			p.begin(s, seq)
		case len(at.newest.rest) < blockSize:
			at.newest.add(seq)
		default:
			full := at.newest
			at.full = append(at.full, &full)
			at.newest = block{subject: s, first: seq, last: seq}
		}
	}
}

// begin makes the posting of a subject that has none.
func (p *postings) begin(s event.Subject, seq uint64) {
	names := p.byKind[s.Kind]
	if names == nil {
		if names = map[string]*posting{}; p.byKind == nil {
			p.byKind = map[string]map[string]*posting{}
		}
		p.byKind[s.Kind] = names
	}
	if len(p.spare) == 0 {
		p.spare = make([]posting, min(8+len(names), 256))
	}
	at := &p.spare[0]
	p.spare = p.spare[1:]
	at.newest = block{subject: s, first: seq, last: seq, rest: at.few[:0]}
	names[s.Name] = at
}

// of returns the sequences of a subject, in order.
func (p *postings) of(s event.Subject) (out []uint64) {
	at := p.byKind[s.Kind][s.Name]
	if at == nil {
		return nil
	}
	for _, b := range append(slices.Clip(at.full), &at.newest) {
		seqs, _ := b.sequences() // our own
		out = append(out, seqs...)
	}
	return out
}

// sorted returns the blocks in the table's order.
func (p *postings) sorted() (out []*block) {
	for _, names := range p.byKind {
		for _, at := range names {
			out = append(append(out, at.full...), &at.newest)
		}
	}
	slices.SortFunc(out, func(a, b *block) int {
		return cmp.Or(cmp.Compare(a.subject.Kind, b.subject.Kind), cmp.Compare(a.subject.Name, b.subject.Name), cmp.Compare(a.first, b.first))
	})
	return out
}
