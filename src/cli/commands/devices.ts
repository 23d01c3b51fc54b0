import { openDevices } from '../../config/open-devices.js';
import { selectDevices } from '../../device/select-devices.js';
import { type Device, DeviceLost } from '../../device/types.js';
import { type DeviceRow, devicesTable } from '../../report/text/lines.js';
import { type CliIo, type CommandModule, printJson, textStyle } from '../io.js';
import { addDeviceOptions, type DeviceArguments, settingsOf } from '../options/watch-options.js';

export const devicesCommand: CommandModule = {
  define(command, context) {
    addDeviceOptions(command)
      .addHelpText(
        'after',
        `
Examples:
  plimsoll devices
  plimsoll devices --json | jq '.devices[].freeBytes'`,
      )
      .action(context.action((given: DeviceArguments) => devices(given, context.io)));
  },
};

async function devices(given: DeviceArguments, io: CliIo): Promise<number> {
  const settings = await settingsOf(given, io);
  const discovery = await openDevices(settings);
  try {
    const chosen = selectDevices(discovery.devices, settings.devices);
    const read = await Promise.all(chosen.map(rowOf));
    const rows = read.filter((one) => typeof one !== 'string');
    // A device that went away between finding and reading it is worth a word, not an error.
    const notes = [...discovery.notes, ...read.filter((one) => typeof one === 'string')];
    if (given.json) {
      printJson(io, { devices: rows, notes });
    } else {
      const { loadLinePercent } = settings;
      const options = {
        columns: io.stdout.columns(),
        loadLinePercent,
        style: textStyle(io),
        notes,
      };
      io.stdout.write(`${devicesTable(rows, options)}\n`);
    }
    return 0;
  } finally {
    discovery.close();
  }
}

async function rowOf(device: Device): Promise<DeviceRow | string> {
  try {
    const [reading, processes] = await Promise.all([device.read(), device.processes()]);
    return { ...device.info, ...reading, processes };
  } catch (error) {
    if (!(error instanceof DeviceLost)) throw error;
    return `${device.info.id} is gone: ${error.message}`;
  }
}
