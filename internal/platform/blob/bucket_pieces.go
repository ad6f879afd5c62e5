package blob

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/minio/minio-go/v7"
)

// A bucket stores each piece in an object below the key, whose name has offset and size.
const pieceName = "%012x-%06x"

// piecesAtMost is how many adjacent pieces are left as they are, however small.
const piecesAtMost = 64

func (b *bucket) addPiece(ctx context.Context, key string, offset int64, content []byte) error {
	return b.putWhole(ctx, path.Join(key, fmt.Sprintf(pieceName, offset, len(content))), content)
}

func (b *bucket) pieces(ctx context.Context, key string, from, to int64) ([]Piece, error) {
	// The listing starts after a name; a piece that starts at this very offset ends before from.
	after := fmt.Sprintf("%012x", max(0, from-MaxPiece))
	options := minio.ListObjectsOptions{Prefix: b.name(key) + "/", Recursive: true, StartAfter: path.Join(b.name(key), after)}
	var found []Piece
	for object := range b.client.ListObjectsIter(ctx, b.bucket, options) {
		if object.Err != nil {
			return nil, b.explain(object.Err)
		}
		p := Piece{name: path.Base(object.Key)}
		if n, err := fmt.Sscanf(p.name, pieceName, &p.Offset, &p.Size); n != 2 || err != nil {
			continue
		}
		if p.Offset >= to {
			break
		}
		found = append(found, p)
	}
	return found, ctx.Err()
}

func (b *bucket) readPiece(ctx context.Context, key string, p Piece) ([]byte, error) {
	from, err := b.open(ctx, path.Join(key, p.name), 0, -1)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	content := make([]byte, p.Size)
	_, err = io.ReadFull(from, content)
	return content, err
}

func (b *bucket) removePieces(ctx context.Context, key string, pieces []Piece) error {
	names := make([]string, len(pieces))
	for i, p := range pieces {
		names[i] = b.name(path.Join(key, p.name))
	}
	return b.removeNames(ctx, slices.Values(names))
}

// joinPieces joins adjacent pieces, when together they are about as large as a piece can be, or when there are
// many. It writes the joined piece before it deletes the others, so no byte is ever missing.
func (b *bucket) joinPieces(ctx context.Context, key string, from, to int64) error {
	pieces, err := b.pieces(ctx, key, from, to)
	if err != nil {
		return err
	}
	for _, run := range runs(pieces) {
		size := run[len(run)-1].End() - run[0].Offset
		if len(run) == 1 || size < MaxPiece/2 && len(run) < piecesAtMost {
			continue
		}
		if err := b.join(ctx, key, run); err != nil {
			return err
		}
	}
	return nil
}

func (b *bucket) join(ctx context.Context, key string, run []Piece) error {
	first := run[0]
	joined := make([]byte, 0, run[len(run)-1].End()-first.Offset)
	for _, p := range run {
		content, err := b.readPiece(ctx, key, p)
		if err != nil {
			return err
		}
		joined = append(joined[:p.Offset-first.Offset], content...)
	}
	if err := b.addPiece(ctx, key, first.Offset, joined); err != nil {
		return err
	}
	return b.removePieces(ctx, key, run)
}

// runs returns runs of pieces in which each starts where the previous one ends, and which are no larger than a
// piece can be. Pieces are in the order of their offsets.
func runs(pieces []Piece) [][]Piece {
	var found [][]Piece
	for _, p := range pieces {
		if n := len(found); n > 0 {
			run := found[n-1]
			if run[len(run)-1].End() == p.Offset && p.End()-run[0].Offset <= MaxPiece {
				found[n-1] = append(run, p)
				continue
			}
		}
		found = append(found, []Piece{p})
	}
	return found
}
