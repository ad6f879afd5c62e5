-- +goose Up

-- Lists filter pipelines by a part of the repository's URL as it was given, and by nothing else.
UPDATE pipelines SET repository_folded = LOWER(repository);
