package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// MaxPiece is the size of the largest piece, in bytes.
const MaxPiece = 1 << 20

// A Piece is a part of something that grows, such as the log of a running job: some bytes and where they
// belong. Pieces are added by anybody in any order, may overlap, and may be added twice.
//
// A folder keeps pieces one after the other in files (journal.go); a bucket keeps each in an object.
type Piece struct {
	Offset int64
	Size   int64

	name     string // of the file or object that holds it
	position int64  // of its bytes in the file
	sum      uint32 // of its bytes in the file
}

// End is the offset of the byte after the piece.
func (p Piece) End() int64 { return p.Offset + p.Size }

// AddPiece adds a piece to what grows under a key. It is durable when AddPiece returns. No object has
// that key, nor one that it is the prefix of.
func (s *Store) AddPiece(ctx context.Context, key string, offset int64, content []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(content) == 0 || len(content) > MaxPiece || offset < 0 || offset > maxOffset {
		return fmt.Errorf("blob: %d bytes at %d are not a piece", len(content), offset)
	}
	if err := s.objects.addPiece(ctx, key, offset, content); err != nil {
		return fmt.Errorf("write a piece of %s to %s: %w", key, s.objects, err)
	}
	return nil
}

// maxOffset is the largest offset that a piece can have, so that names of pieces sort as their offsets do.
const maxOffset = 1<<48 - 1

// Pieces returns the pieces under a key that hold a byte from an offset on and before another, in the
// order of their offsets. Those that are added meanwhile may be among them or not.
func (s *Store) Pieces(ctx context.Context, key string, from, to int64) ([]Piece, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	found, err := s.objects.pieces(ctx, key, from, to)
	if err != nil {
		return nil, fmt.Errorf("list the pieces of %s in %s: %w", key, s.objects, err)
	}
	found = slices.DeleteFunc(found, func(p Piece) bool { return p.End() <= from || p.Offset >= to })
	slices.SortFunc(found, func(a, b Piece) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(b.Size, a.Size))
	})
	return found, nil
}

// ErrDamaged is what reading returns when bytes are not those that were written.
var ErrDamaged = errors.New("the bytes are not those that were written")

// ReadPiece returns the bytes of a piece, ErrNotFound when it has been removed or joined with others, or
// ErrDamaged.
func (s *Store) ReadPiece(ctx context.Context, key string, p Piece) ([]byte, error) {
	content, err := s.objects.readPiece(ctx, key, p)
	if err != nil {
		return nil, fmt.Errorf("read a piece of %s in %s: %w", key, s.objects, err)
	}
	return content, nil
}

// RemovePieces removes pieces, but never one that is not among them. Where pieces stand together in a
// file, they stay until all of that file are to be removed.
func (s *Store) RemovePieces(ctx context.Context, key string, pieces []Piece) error {
	if err := s.objects.removePieces(ctx, key, pieces); err != nil {
		return fmt.Errorf("remove pieces of %s in %s: %w", key, s.objects, err)
	}
	return nil
}

// JoinPieces makes few pieces of those that lie between two offsets where many would make reading slow.
// They hold the same bytes.
func (s *Store) JoinPieces(ctx context.Context, key string, from, to int64) error {
	if err := s.objects.joinPieces(ctx, key, from, to); err != nil {
		return fmt.Errorf("join pieces of %s in %s: %w", key, s.objects, err)
	}
	return nil
}
