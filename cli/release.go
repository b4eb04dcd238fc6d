package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/llama"
)

func (a *app) releaseCreateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create <name>",
		Short: "Upload model files and make an immutable release of them",
		Long: `Upload model files and make an immutable release of them. Of a split GGUF name the first shard; the
others are found beside it. An interrupted upload goes on where it stopped when the command is repeated,
and bytes that the server has already are not sent.`,
		Example: "  interlock models release create q4 --file qwen3-q4_k_m.gguf --license Apache-2.0 --context 8192",
		Args:    exactly(1),
	}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	f := cmd.Flags()
	files := f.StringArray("file", nil, "a model file; repeat it for several")
	license := f.String("license", "", "the license note people read before they install the weights")
	contextLength := f.Int("context", 0, fmt.Sprintf("context length of a slot in tokens (default %d)", fleet.DefaultContext))
	slots := f.Int("slots", 0, "requests served at once (default 1)")
	runtime := f.String("runtime", string(fleet.LlamaCpp), fmt.Sprintf("model server: %s or %s", fleet.LlamaCpp, fleet.MLXLM))
	args := f.StringArray("arg", nil, "an extra argument of the model server; repeat it for several")
	create := a.onGroup(ref, func(ctx context.Context, s *session, group string, names []string) error {
		req := fleet.NewReleaseRequest{
			Name: names[0], Runtime: fleet.Runtime(*runtime), Args: *args, ContextLength: *contextLength, Slots: *slots, License: *license,
		}
		paths, err := a.modelFiles(*files, &req)
		if err != nil {
			return err
		}
		if err := a.uploadAll(ctx, s.Client, paths, req.Files); err != nil {
			return err
		}
		rel, err := s.CreateRelease(ctx, group, req)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(rel)
		}
		a.say("release %s of %s: %s, digest %s", rel.Name, group, describeFiles(rel.Files), rel.Digest)
		a.note("serve it with `interlock models deploy %s --alias <alias>`", rel.Name)
		return nil
	})
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if len(*files) == 0 {
			return usage("no model file was given: name it with --file")
		}
		return create(cmd, names)
	}
	return cmd
}

// modelFiles finds and checks everything that can be checked here, and fills in names and sizes: an
// upload of many gigabytes does not end in a refusal that was to be foreseen.
func (a *app) modelFiles(named []string, req *fleet.NewReleaseRequest) ([]string, error) {
	paths, err := expandShards(a.env.Dir, named)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fault.Wrap(err, fault.NotFound, "cannot read %s: %v", path, err).WithHint("check the path after --file")
		}
		if !info.Mode().IsRegular() {
			return nil, fault.New(fault.Invalid, "%s is no regular file", path).WithHint("name the files in it one by one with --file")
		}
		req.Files = append(req.Files, fleet.File{Name: info.Name(), Size: info.Size(), SHA256: strings.Repeat("0", 64)})
	}
	if err := req.Normalize(); err != nil { // the digests come with the upload
		return nil, err
	}
	if req.Runtime == fleet.LlamaCpp {
		if err := llama.CheckExtra(req.Args); err != nil {
			return nil, err
		}
		if err := checkGGUF(paths); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

func (a *app) uploadAll(ctx context.Context, c *client.Client, paths []string, files []fleet.File) error {
	for i, path := range paths {
		sent, err := a.upload(ctx, c, path, files[i])
		if ctx.Err() != nil {
			a.note("%s is not on the server yet: repeat the command to go on where it stopped", files[i].Name)
		}
		if err != nil {
			return err
		}
		files[i].SHA256, files[i].Size = sent.SHA256, sent.Size
	}
	return nil
}

func (a *app) releaseListCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List a group's releases", Args: cobra.NoArgs}
	ref, asJSON := groupFlags(cmd), jsonFlag(cmd)
	cmd.RunE = a.onGroup(ref, func(ctx context.Context, s *session, group string, _ []string) error {
		st, err := s.GroupStatus(ctx, group)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.printJSON(map[string]any{"releases": some(st.Releases)})
		}
		if len(st.Releases) == 0 {
			a.empty("%s has no releases yet: make one with `interlock models release create <name> --file model.gguf --license …`", ref.said)
			return nil
		}
		a.releaseTable(st.Releases)
		return nil
	})
	return cmd
}

func (a *app) releaseTable(releases []fleet.Release) {
	var rows [][]string
	for _, r := range releases {
		digest := r.Digest
		if len(digest) > 12 {
			digest = digest[:12]
		}
		rows = append(rows, []string{
			r.Name, string(r.Runtime), r.Architecture, describeFiles(r.Files), strconv.Itoa(r.ContextLength), strconv.Itoa(r.Slots),
			r.License, digest, a.ago(&r.CreatedAt),
		})
	}
	a.table([]string{"RELEASE", "RUNTIME", "ARCH", "FILES", "CONTEXT", "SLOTS", "LICENSE", "DIGEST", "CREATED"}, rows)
}

func describeFiles(files []fleet.File) string {
	var total int64
	for _, f := range files {
		total += f.Size
	}
	if len(files) == 1 {
		return "1 file, " + humanize.Bytes(uint64(max(total, 0)))
	}
	return fmt.Sprintf("%d files, %s", len(files), humanize.Bytes(uint64(max(total, 0))))
}
