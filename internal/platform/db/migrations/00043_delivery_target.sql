-- +goose Up

-- Who a notification of a pipeline or a step goes to: JSON, delivery.Target. NULL: what the service's settings say.
ALTER TABLE deliveries ADD COLUMN target TEXT;
