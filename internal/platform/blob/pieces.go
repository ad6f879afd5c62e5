package blob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// MaxPiece is the maximum size of a piece, in bytes.
const MaxPiece = 1 << 20

// A Piece is a part of growing content, for example the log of a running job: some bytes and their offset.
// Several processes can add pieces in any order; pieces can overlap, and can be added twice.
//
// A folder appends pieces to files (journal.go); a bucket stores each in an object.
type Piece struct {
	Offset int64
	Size   int64

	name     string // of its file or object
	position int64  // of its bytes in the file
	sum      uint32 // of its bytes in the file
}

// End returns the offset after the piece.
func (p Piece) End() int64 { return p.Offset + p.Size }

// AddPiece adds a piece to the content under a key. It is durable when AddPiece returns. No object has that
// key, or one that starts with it.
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

// maxOffset is the largest offset of a piece, so that the names of pieces sort by offset.
const maxOffset = 1<<48 - 1

// Pieces returns the pieces under a key that contain a byte from an offset on and before another, in the order
// of their offsets. Pieces that are added meanwhile may be included or not.
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

// ErrDamaged is the error of reading bytes that differ from those written.
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

// RemovePieces removes pieces, and never any other. Pieces that share a file stay until all pieces of the file
// are removed.
func (s *Store) RemovePieces(ctx context.Context, key string, pieces []Piece) error {
	if err := s.objects.removePieces(ctx, key, pieces); err != nil {
		return fmt.Errorf("remove pieces of %s in %s: %w", key, s.objects, err)
	}
	return nil
}

// JoinPieces replaces many pieces between two offsets by few with the same bytes, if many would make reading
// slow.
func (s *Store) JoinPieces(ctx context.Context, key string, from, to int64) error {
	if err := s.objects.joinPieces(ctx, key, from, to); err != nil {
		return fmt.Errorf("join pieces of %s in %s: %w", key, s.objects, err)
	}
	return nil
}
