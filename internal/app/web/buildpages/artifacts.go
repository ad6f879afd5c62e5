package buildpages

import (
	"archive/zip"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"stackyard/internal/app/web/pages"
	"stackyard/internal/domain/artifacts"
	"stackyard/internal/domain/builds"
	"stackyard/internal/platform/core"
	"stackyard/internal/platform/route"
)

const (
	// maxListed limits the artifacts of a build that its page sorts into folders, and that an archive has.
	maxListed = 5000
	// maxArchive limits the size of an archive, in bytes, and maxArchives the number that a process writes at a time.
	maxArchive  = 4 << 30
	maxArchives = 4
	// maxThumbnail is the size of images that are shown in lists.
	maxThumbnail = 2 << 20
)

func (s *Site) artifactRoutes() []route.Route {
	one := buildPath + "/jobs/{job}/artifacts/{artifact}"
	return append(s.Live.Page(buildPath+"/artifacts", pages.Within, s.artifactList, s.watchBuild),
		s.Get(buildPath+"/artifacts.zip", pages.Within(s.archive)),
		s.Get(one, pages.Within(s.artifact)),
		s.Get(oneJobPath+"/artifact", pages.Within(s.namedArtifact)),
		s.Get(one+"/preview", pages.Within(s.preview)),
	)
}

// An artifactsPage is the data of the page of a build's artifacts: one folder of them.
type artifactsPage struct {
	Head
	Tabs    []Tab
	Job     string // only those of this job
	Folder  string // "" or with a slash at the end
	Parents []folder
	Folders []folder
	Files   []listedFile
	Total   int
	Size    int64
	Left    int // number of artifacts that are not listed
}

// A folder is a part of the paths of artifacts.
type folder struct {
	Name  string
	Path  string // of its page
	Count int
	Size  int64
}

// A listedFile is an artifact in a folder.
type listedFile struct {
	artifact
	Short     string // last part of its path
	Preview   string // path of its preview
	Thumbnail bool
	JobPath   string
}

// HasFile reports whether the file can be downloaded.
func (f listedFile) HasFile() bool { return f.artifact.Path != "" }

// FilePath returns the path at which it can be downloaded.
func (f listedFile) FilePath() string { return f.artifact.Path }

// ArchivePath returns the path of an archive of all artifacts.
func (p artifactsPage) ArchivePath() string {
	if p.Job == "" {
		return p.Path + "/artifacts.zip"
	}
	return p.Path + "/artifacts.zip?job=" + p.Job
}

// JobPath returns the path of the page of the job.
func (p artifactsPage) JobPath() string { return p.Path + "/jobs/" + p.Job }

// folderPath returns the path of the page of a folder.
func (p artifactsPage) folderPath(name string) string {
	q := url.Values{}
	if name != "" {
		q.Set("folder", name)
	}
	if p.Job != "" {
		q.Set("job", p.Job)
	}
	if len(q) == 0 {
		return p.Path + "/artifacts"
	}
	return p.Path + "/artifacts?" + q.Encode()
}

// listedArtifacts returns the artifacts of a build, or of the job in the query.
func (s *Site) listedArtifacts(v *pages.Visit, o builds.OnBuild) (list []artifacts.Artifact, jobID string, total int, err error) {
	list, total, err = s.Artifacts.OfBuild(v.Context(), o.Build, maxListed)
	jobID, _ = core.ParseID(v.FormQuery("job"))
	if jobID != "" {
		list = slices.DeleteFunc(list, func(a artifacts.Artifact) bool { return a.JobID != jobID })
	}
	return list, jobID, total, err
}

// artifactList shows a folder of the artifacts of a build.
func (s *Site) artifactList(v *pages.Visit) error {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err != nil {
		return err
	}
	list, job, total, err := s.listedArtifacts(v, o)
	if err != nil {
		return err
	}
	head := HeadOf(v, o)
	page := artifactsPage{Head: head, Tabs: head.tabs("artifacts"), Job: job, Total: len(list), Left: max(0, total-maxListed)}
	if name := strings.Trim(path.Clean("/"+v.FormQuery("folder")), "/"); name != "" {
		page.Folder = name + "/"
	}
	page.fill(list)
	s.SetLivePolicy(v.W.Header())
	return v.Show(http.StatusOK, "artifacts", pages.View{Title: "Artifacts of " + page.Pipeline.Name + " #" + itoa(page.Number), Section: "builds", Icon: page.Favicon(), Page: page})
}

// fill sorts artifacts into the folders and files of the page.
func (p *artifactsPage) fill(list []artifacts.Artifact) {
	b := &board{Head: p.Head}
	folders := map[string]*folder{}
	for _, a := range list {
		p.Size += a.FileSize
		rest, ok := strings.CutPrefix(cleanPath(a.Path), p.Folder)
		if !ok {
			continue
		}
		if name, _, nested := strings.Cut(rest, "/"); nested {
			f := folders[name]
			if f == nil {
				f = &folder{Name: name, Path: p.folderPath(p.Folder + name)}
				folders[name] = f
			}
			f.Count++
			f.Size += a.FileSize
			continue
		}
		file := listedFile{artifact: b.file(a), Short: rest, JobPath: p.Path + "/jobs/" + a.JobID}
		if file.HasFile() && a.Kept() {
			file.Preview = file.FilePath() + "/preview"
			file.Thumbnail = kindOf(a) == imageFile && a.FileSize <= maxThumbnail
		}
		p.Files = append(p.Files, file)
	}
	for _, f := range folders {
		p.Folders = append(p.Folders, *f)
	}
	slices.SortFunc(p.Folders, func(a, b folder) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Files, func(a, b listedFile) int { return cmp.Or(cmp.Compare(a.Short, b.Short), cmp.Compare(a.ID, b.ID)) })
	at := ""
	for name := range strings.SplitSeq(strings.TrimSuffix(p.Folder, "/"), "/") {
		if name != "" {
			at += name
			p.Parents = append(p.Parents, folder{Name: name, Path: p.folderPath(at)})
			at += "/"
		}
	}
}

// cleanPath returns the path of an artifact without parts that lead elsewhere.
func cleanPath(name string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
}

// archive streams all artifacts of a build, or of the job in the query, as a zip file. It is not kept in memory.
func (s *Site) archive(v *pages.Visit) error {
	o, err := s.Builds.LoadOnBuild(v.Request)
	if err != nil {
		return err
	}
	list, _, total, err := s.listedArtifacts(v, o)
	if err != nil {
		return err
	}
	var size int64
	list = slices.DeleteFunc(list, func(a artifacts.Artifact) bool { return a.State != artifacts.StateFinished || !a.Kept() })
	for _, a := range list {
		size += a.FileSize
	}
	switch {
	case len(list) == 0:
		return core.Errorf(core.NotFound, "There are no artifacts to download.")
	case total > maxListed || size > maxArchive:
		return core.Errorf(core.Unprocessable, "These artifacts are too many or too large for one archive; download those of single jobs, or use the API.")
	}
	select {
	case s.archives <- struct{}{}:
		defer func() { <-s.archives }()
	default:
		return &core.Error{Kind: core.Unavailable, Message: "Too many archives are being downloaded right now; try again.", RetryAfter: 10}
	}
	h := v.W.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fmt.Sprintf("%s-%d-artifacts.zip", o.Pipeline.Slug, o.Number)}))
	return s.writeBody(v, func() error { return s.writeArchive(v.Context(), v.W, list) })
}

func (s *Site) writeArchive(ctx context.Context, w io.Writer, list []artifacts.Artifact) error {
	archive := zip.NewWriter(w)
	taken := map[string]bool{}
	for _, a := range list {
		name := cleanPath(a.Path)
		if taken[name] { // another job uploaded a file with this path
			name = a.JobID + "/" + name
		}
		if taken[name] {
			name = a.ID + "/" + name
		}
		taken[name] = true
		if err := s.addToArchive(ctx, archive, name, a); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (s *Site) addToArchive(ctx context.Context, archive *zip.Writer, name string, a artifacts.Artifact) error {
	file, err := s.Open(ctx, a)
	if err != nil {
		return err
	}
	defer file.Close()
	to, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: a.CreatedAt})
	if err != nil {
		return err
	}
	_, err = io.Copy(to, file)
	return err
}
