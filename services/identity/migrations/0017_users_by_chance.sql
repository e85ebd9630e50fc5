-- Users of an account in an order that nobody chooses: those from some place on are a fair choice of all (user_room_choice.c).
CREATE INDEX application_user_by_chance ON application_user (account_id, hashtextextended(id, 0)) WHERE provider_url IS NOT NULL;
