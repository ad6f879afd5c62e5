package blob

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stackyard/internal/core"
)

// A journal is a file of pieces in a folder: records that are appended, each a header and the bytes. The
// pieces of one key that begin within the same MiB stand in one journal, whose name begins with where
// that MiB does.
//
// Whoever adds a piece writes one record with one call, makes the file durable, and then makes sure that
// the file still has its name. Whoever removes pieces first takes the file its name, so that nothing is
// acknowledged that is added afterwards, and then looks at what the file holds. So no lock is needed, not
// even between processes.
//
// A process that dies, or a disk that is full, may leave a part of a record. Nobody was told that its
// piece is kept. Readers find the next record by its header.
const (
	journalSpan = 1 << 20
	// maxJournal bounds a journal: so many pieces of a few bytes are nobody's log.
	maxJournal = 8 << 20
	// openSuffix ends the name of the journal that pieces are added to. Others get one of their own.
	openSuffix = ".open"

	headerSize  = 28
	headerMagic = 0x53594731
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errRenamed says that a journal has lost its name while a piece was added.
var errRenamed = errors.New("the journal was renamed")

func appendHeader(b []byte, offset int64, content []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint32(b, headerMagic)
	b = binary.BigEndian.AppendUint64(b, uint64(offset))
	b = binary.BigEndian.AppendUint64(b, uint64(len(content)))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(content, castagnoli))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// parseHeader returns what a header says; its bytes follow it at a position.
func parseHeader(b []byte, position int64) (Piece, bool) {
	if len(b) < headerSize || binary.BigEndian.Uint32(b) != headerMagic ||
		binary.BigEndian.Uint32(b[headerSize-4:]) != crc32.Checksum(b[:headerSize-4], castagnoli) {
		return Piece{}, false
	}
	return Piece{
		Offset:   int64(binary.BigEndian.Uint64(b[4:])),
		Size:     int64(binary.BigEndian.Uint64(b[12:])),
		sum:      binary.BigEndian.Uint32(b[20:]),
		position: position,
	}, true
}

func (f folder) addPiece(_ context.Context, key string, offset int64, content []byte) error {
	record := make([]byte, 0, headerSize+len(content))
	record = append(appendHeader(record, offset, content), content...)
	path := filepath.Join(f.path(key), fmt.Sprintf("%012x%s", offset-offset%journalSpan, openSuffix))
	for {
		if err := f.appendRecord(path, record); !errors.Is(err, errRenamed) {
			return err
		}
	}
}

func (f folder) appendRecord(path string, record []byte) (err error) {
	journal, err := f.openJournal(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	before, err := journal.Stat()
	if err != nil {
		return err
	}
	switch size := before.Size(); {
	case size > maxJournal:
		return errors.New("there are too many small pieces")
	case size == 0:
		// The first record is written only when the name is durable, so a file that has any needs no more.
		if err := syncFolder(filepath.Dir(path)); err != nil {
			return err
		}
	}
	if _, err := journal.Write(record); err != nil {
		return err
	}
	if err := journal.Sync(); err != nil {
		return err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(before, named) {
		return errRenamed
	}
	return err
}

func (f folder) openJournal(path string) (*os.File, error) {
	for tries := 10; ; tries-- {
		journal, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if tries == 0 || !errors.Is(err, fs.ErrNotExist) {
			return journal, err
		}
		if err := f.makeFolders(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

func (f folder) pieces(ctx context.Context, key string, from, to int64) ([]Piece, error) {
	entries, err := os.ReadDir(f.path(key))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []Piece
	for _, entry := range entries {
		start, _, _ := strings.Cut(entry.Name(), ".")
		begins, err := strconv.ParseInt(start, 16, 64)
		if err != nil || begins >= to || begins+journalSpan+MaxPiece <= from {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pieces, err := f.scanJournal(key, entry.Name())
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		found = append(found, pieces...)
	}
	return found, nil
}

// scanJournal returns the pieces in a journal, without reading their bytes.
func (f folder) scanJournal(key, name string) ([]Piece, error) {
	journal, err := os.Open(filepath.Join(f.path(key), name))
	if err != nil {
		return nil, absent(err)
	}
	defer journal.Close()
	stat, err := journal.Stat()
	if err != nil {
		return nil, err
	}
	s := scanner{from: journal, size: stat.Size(), buffer: make([]byte, 0, 4<<10)}
	return s.scan(name)
}

// scanner finds the records of a journal.
type scanner struct {
	from   io.ReaderAt
	size   int64
	buffer []byte // what was read last
	at     int64  // and from where
}

// scan returns what is found up to the end of the file as it was at first. A record counts when another
// one begins where it ends or, to be sure of the last and of one before a part of a record, when its
// bytes have its sum: else it was cut, and the next one begins somewhere within it.
func (s *scanner) scan(name string) ([]Piece, error) {
	var found []Piece
	for position := int64(0); position < s.size; {
		piece, ok, err := s.header(position)
		if err != nil {
			return nil, err
		}
		if ok {
			ok, err = s.confirm(piece)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			position++
			continue
		}
		piece.name = name
		found = append(found, piece)
		position = piece.position + piece.Size
	}
	return found, nil
}

func (s *scanner) confirm(p Piece) (ok bool, err error) {
	end := p.position + p.Size
	if end > s.size {
		return false, nil
	}
	if end < s.size {
		if _, ok, err = s.header(end); ok || err != nil {
			return ok, err
		}
	}
	sum := crc32.New(castagnoli)
	_, err = io.Copy(sum, io.NewSectionReader(s.from, p.position, p.Size))
	return sum.Sum32() == p.sum, err
}

// header reads the header at a position, if there is one.
func (s *scanner) header(position int64) (Piece, bool, error) {
	if position < s.at || position+headerSize > s.at+int64(len(s.buffer)) {
		n, err := s.from.ReadAt(s.buffer[:min(int64(cap(s.buffer)), s.size-position)], position)
		if err != nil && err != io.EOF {
			return Piece{}, false, err
		}
		s.buffer, s.at = s.buffer[:n], position
	}
	b := s.buffer[position-s.at:]
	piece, ok := parseHeader(b, position+headerSize)
	ok = ok && piece.Size > 0 && piece.Size <= MaxPiece && piece.Offset >= 0 && piece.Offset <= maxOffset
	return piece, ok, nil
}

func (f folder) readPiece(_ context.Context, key string, p Piece) ([]byte, error) {
	journal, err := os.Open(filepath.Join(f.path(key), p.name))
	if err != nil {
		return nil, absent(err)
	}
	defer journal.Close()
	content := make([]byte, p.Size)
	if _, err := journal.ReadAt(content, p.position); err != nil {
		return nil, err
	}
	if crc32.Checksum(content, castagnoli) != p.sum {
		return nil, ErrDamaged
	}
	return content, nil
}

func (f folder) removePieces(_ context.Context, key string, pieces []Piece) error {
	byName := map[string]map[int64]bool{} // positions
	for _, p := range pieces {
		if byName[p.name] == nil {
			byName[p.name] = map[int64]bool{}
		}
		byName[p.name][p.position] = true
	}
	for name, positions := range byName {
		if err := f.removeJournal(key, name, positions); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f.prune(f.path(key))
	return nil
}

// removeJournal removes a journal if it holds no other pieces than those at positions.
func (f folder) removeJournal(key, name string, positions map[int64]bool) error {
	retired := name
	if begins, open := strings.CutSuffix(name, openSuffix); open {
		retired = begins + "." + core.NewID()
		if err := os.Rename(filepath.Join(f.path(key), name), filepath.Join(f.path(key), retired)); err != nil {
			return err
		}
	}
	held, err := f.scanJournal(key, retired)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(held, func(p Piece) bool { return !positions[p.position] }) {
		return nil
	}
	return os.Remove(filepath.Join(f.path(key), retired))
}

// joinPieces does nothing: pieces that stand in one file are read together anyway.
func (f folder) joinPieces(context.Context, string, int64, int64) error { return nil }
