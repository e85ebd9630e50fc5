// Case 5 of our list of cases: an edge matches a path as it arrives, however it was spelled. The first half of 100,000 spellings.
import test from 'node:test';
import { spellings } from '../support/spellings.mjs';

test('case_05_cve_2019_9901_50000_spellings_match_as_they_arrive: the first ones', { timeout: 600000 }, () => spellings(20261121, 25));
