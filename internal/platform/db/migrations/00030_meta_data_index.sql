-- +goose Up

-- Lists of builds that ask for meta-data find them here, newest first. A value can be larger than an entry of
-- an index, so its beginning is indexed.
ALTER TABLE build_meta_data ADD COLUMN organization_id TEXT NOT NULL DEFAULT '';
ALTER TABLE build_meta_data ADD COLUMN pipeline_id TEXT NOT NULL DEFAULT '';
UPDATE build_meta_data SET organization_id = b.organization_id, pipeline_id = b.pipeline_id
FROM builds b WHERE b.id = build_meta_data.build_id;
CREATE INDEX build_meta_data_organization ON build_meta_data (organization_id, key, (SUBSTR(value, 1, 100)), build_id);
CREATE INDEX build_meta_data_pipeline ON build_meta_data (pipeline_id, key, (SUBSTR(value, 1, 100)), build_id);
