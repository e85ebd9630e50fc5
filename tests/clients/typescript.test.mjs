// The TypeScript client as npm has it.
import test from 'node:test';
import { env } from '../support/postern.mjs';
import { account } from '../support/account.mjs';
import { typescript } from './driver.mjs';
import { story } from './every.mjs';

test('every method of the TypeScript client', () => story('TypeScript', typescript(env.POSTERN_API_URL, account('of the TypeScript client').token)));
