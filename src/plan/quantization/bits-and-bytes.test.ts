import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { quantizationPresets } from '../../estimate/types.js';
import { GiB, MiB } from '../../units/bytes.js';
import { asPython, bitsAndBytesArguments } from './bits-and-bytes.js';

const memory = { gpuBytes: [22 * GiB], hostBytes: 48 * GiB };

/** Recorded from the real classes by python/tools/record_transformers_signatures.py. */
const signatures: { BitsAndBytesConfig: string[]; from_pretrained: string[] } = JSON.parse(
  readFileSync(
    new URL('../../../test/fixtures/transformers-signatures.json', import.meta.url),
    'utf8',
  ),
);

describe('bitsAndBytesArguments', () => {
  it('writes out each preset', () => {
    const written = Object.fromEntries(
      quantizationPresets.map((preset) => [preset, bitsAndBytesArguments(preset, memory)]),
    );
    const onGpu = { dtype: 'bfloat16', device_map: 'auto', max_memory: { '0': '22GiB' } };
    const nf4 = {
      load_in_4bit: true,
      bnb_4bit_quant_type: 'nf4',
      bnb_4bit_use_double_quant: true,
      bnb_4bit_compute_dtype: 'bfloat16',
    };
    expect(written).toEqual({
      cpu: { dtype: 'float32', device_map: 'cpu', max_memory: { cpu: '48GiB' } },
      fp16: onGpu,
      int8: { ...onGpu, quantization_config: { load_in_8bit: true } },
      int4: { ...onGpu, quantization_config: { ...nf4, bnb_4bit_use_double_quant: false } },
      int4_double: { ...onGpu, quantization_config: nf4 },
      int4_offload: {
        ...onGpu,
        max_memory: { '0': '22GiB', cpu: '48GiB' },
        quantization_config: { ...nf4, llm_int8_enable_fp32_cpu_offload: true },
      },
    });
    expect(JSON.parse(JSON.stringify(written))).toEqual(written);
  });

  it('uses only names that transformers takes', () => {
    expect(signatures.BitsAndBytesConfig).toContain('load_in_8bit');
    for (const preset of quantizationPresets) {
      const { quantization_config: config = {}, ...others } = bitsAndBytesArguments(preset, memory);
      expect(signatures.BitsAndBytesConfig).toEqual(expect.arrayContaining(Object.keys(config)));
      const names = [...Object.keys(others), 'quantization_config'];
      expect(signatures.from_pretrained).toEqual(expect.arrayContaining(names));
    }
  });

  it('never promises more memory than there is', () => {
    const several = { gpuBytes: [8 * GiB - 1, 1536 * MiB, 5], hostBytes: 0 };
    expect(bitsAndBytesArguments('fp16', several).max_memory).toEqual({
      '0': '8191MiB',
      '1': '1536MiB',
      '2': '0MiB',
    });
  });

  it('computes in float16 on cards that have no bfloat16', () => {
    const { dtype, quantization_config: config } = bitsAndBytesArguments('int4', memory, 'float16');
    expect(dtype).toBe('float16');
    expect(config?.['bnb_4bit_compute_dtype']).toBe('float16');
  });
});

describe('asPython', () => {
  it('is Python as a person would write it', () => {
    expect(asPython(bitsAndBytesArguments('int4_offload', memory))).toBe(`\
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

model = AutoModelForCausalLM.from_pretrained(
    model_name,
    quantization_config=BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        llm_int8_enable_fp32_cpu_offload=True,
        bnb_4bit_compute_dtype="bfloat16",
    ),
    dtype="bfloat16",
    device_map="auto",
    max_memory={0: "22GiB", "cpu": "48GiB"},
)
`);
  });

  it('leaves out what is not quantized', () => {
    const text = asPython(bitsAndBytesArguments('cpu', memory));
    expect(text).not.toContain('BitsAndBytesConfig');
    expect(text).toContain('max_memory={"cpu": "48GiB"}');
  });
});
